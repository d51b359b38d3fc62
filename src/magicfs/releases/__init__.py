"""Several datasets that readers see together: one record names a publication of each, and moves as one.

====================  ======================================================================================
``record``            the record of a release: which publication of which dataset, now and before
``holds``             what keeps the files of these publications, written into each dataset
``publish``           moves the record: a new release, an older one again, tags, and what is given up
``reading``           which publication of a dataset a release means
====================  ======================================================================================
"""
