"""Model servers that speak OpenAI's protocol.

client       sends requests: at the same time, again after a failure
server       what the two models share: arguments, identity, the client
chat         OpenAIChat: messages in, text out
completions  OpenAICompletions: text in, text and log-likelihoods out
messages     a chat as the one string that a request holds
payload      generation arguments as the protocol has them
logprobs     log-likelihoods out of an echoed prompt
"""

from multiform.models.openai.chat import OpenAIChat
from multiform.models.openai.completions import OpenAICompletions

__all__ = ["OpenAIChat", "OpenAICompletions"]
