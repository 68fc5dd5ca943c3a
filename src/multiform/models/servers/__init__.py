"""Models behind a server, and what all of them share, whatever protocol it speaks.

server_model        ServerModel and ChatServer: arguments, identity, the client
protocol            messages, generation arguments, thinking and completions
client              sends requests concurrently, and again after a failure
exchange            one request and its response, within limits of time and size; which request is sent next
batch_client        sends requests through a batch interface, at half the price
batch_interfaces    the batch interfaces of OpenAI, Anthropic and Google
batch_ledger        the batches that were submitted and not yet collected, on disk
secrets             keys and passwords, which are never shown
openai_chat         OpenAI's protocol; OpenAIChat: messages in, completions and scores of labels out
openai_completions  OpenAICompletions: prompts in, completions and log-likelihoods out
openai_logprobs     log-likelihoods from the log-probabilities of echoed, listed or generated tokens
anthropic           Anthropic's messages
gemini              Google's generateContent
litellm_chat        any provider that LiteLLM knows
"""
