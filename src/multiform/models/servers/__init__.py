"""Models behind a server, and what all of them share, whatever protocol it speaks.

server_model        ServerModel and ChatServer: arguments, identity, the client
protocol            messages, generation arguments and completions
client              sends requests concurrently, and again after a failure
schedule            which request is sent next, and how many are in flight
exchange            one request and its response, within limits of time and size
secrets             keys and passwords, which are never shown
openai_chat         OpenAIChat: messages in, completions and scores of labels out
openai_completions  OpenAICompletions: prompts in, completions and log-likelihoods out
openai_protocol     requests and responses of OpenAI's protocol, and scores from generated tokens
openai_logprobs     log-likelihoods from the log-probabilities of an echoed prompt
anthropic           Anthropic's messages
gemini              Google's generateContent
"""
