"""The sides: magicfs and its peers, each a class whose methods are the work that it can do.

A method is given a clock and says what is measured; preparing is not. ``where`` is a key of this turn alone.
"""
