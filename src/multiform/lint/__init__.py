"""Lint: warnings about tasks, their documents and their prompts.

findings   Finding; what each code means; how findings are counted, silenced and listed
documents  checks of the columns of documents
prompts    rendered documents, as these need them: layout, answers, tokens
forms      all checks of one form, and of the settings of a run
"""
