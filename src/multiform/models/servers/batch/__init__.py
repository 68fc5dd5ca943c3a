"""Batch interfaces of servers, at half the price: what each of them is called, how a run goes through one, and the
ledger of batches that outlives it."""
