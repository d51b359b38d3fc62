"""One overwrite fails, by us and by every other writer: what is lost, what is shown, what leaks.

====================  =======================================================================================
``tools``             the writers, one row each: add one here
``sides``             how each writes the job
``rows``              the job: what is there before, and what shall replace it
``cases``             how a run fails, and where
``place``             where a run writes, in the words of each client
``victim``            the process in which one writer writes
``ground``            the bucket, and what is in it afterwards
``trial``             one writer, all its cases
``table``             the figures as a page
====================  =======================================================================================
"""
