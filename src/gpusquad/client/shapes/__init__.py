"""What answers hold, in one file for each thing they are about.

Only for type checkers and readers: at run time answers are plain dictionaries.
"""
