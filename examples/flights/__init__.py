"""The demo: all flights that left New York City in 2013, published while a worker is killed, and checked.

::

    flights.py      the input: where it is, what its columns are
    delays.py       what is computed: the delay that the weather explains
    expected.py     the result as it must be, joined by pyarrow alone
    fingerprint.py  an order-free checksum of a dataset
    server.py       the server, and the environment that leads to it
    buckets.py      a bucket as the demo looks at it, on each store
    watcher.py      the witness: what can be seen and what is pending, by plain clients, all the time
    victim.py       finds the process that is writing, and kills it
    spark_engine.py, process_engine.py   the main job
    other_ways.py   the same dataset by pyarrow, by pandas, and a part of it by a pandas UDF
    readback.py     what is there in the end, read by plain pyarrow
    proof.py        what was seen, and whether it proves what it should
    progress.py     the bar on stderr
    main.py         all of it in order
"""
