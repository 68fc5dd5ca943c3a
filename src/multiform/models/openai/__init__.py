"""Model servers that speak OpenAI's protocol.

chat         OpenAIChat: messages in, completions and scores of labels out
completions  OpenAICompletions: prompts in, completions and log-likelihoods out
payload      requests and responses in the protocol's terms
logprobs     log-likelihoods from the log-probabilities of an echoed prompt
forced       scores from tokens that the server lists or is made to generate
first_token  scores of labels from those of the first token that is written
"""

from multiform.models.openai.chat import OpenAIChat
from multiform.models.openai.completions import OpenAICompletions

__all__ = ["OpenAIChat", "OpenAICompletions"]
