"""Model servers that speak OpenAI's protocol.

client       sends requests concurrently, and again after a failure
server       what the two models share: arguments, identity, the client
chat         OpenAIChat: messages in, completions out
completions  OpenAICompletions: prompts in, completions and log-likelihoods out
messages     a chat as the one string that a request holds, and the media in it
payload      generation arguments in the protocol's terms
logprobs     log-likelihoods from the log-probabilities of an echoed prompt
"""

from multiform.models.openai.chat import OpenAIChat
from multiform.models.openai.completions import OpenAICompletions

__all__ = ["OpenAIChat", "OpenAICompletions"]
