"""What users do wrong, or in another order than planned: each mistake is really made, and its outcome judged
from the store.
"""
