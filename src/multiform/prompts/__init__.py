"""Prompts: the text or messages that a model gets, with their media, and the Jinja templates that render them.

prompt     Prompt, and how system text, few-shot examples and question become one
template   compiles and renders Jinja templates, which anybody may have written
sandbox    the environment that they run in: plain data, no attributes of objects, no changes
limits     what a rendering may cost
filters    the filters beside those of Jinja
media      images and audio, and the placeholders that stand for them in a text
chat       chat templates: how a tokenizer writes a conversation as one prompt
"""
