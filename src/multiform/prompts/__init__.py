"""Prompts: the text or messages that a model gets, with their media, and the Jinja templates that render them.

prompt     Prompt, and how system text, few-shot examples and question become one
template   compiles Jinja templates, which anybody may have written, and renders them in a sandbox
filters    the filters that templates have beside Jinja's own
media      images and audio, and the placeholders that stand for them in a text
chat       chat templates: how a tokenizer writes a conversation as one prompt
"""
