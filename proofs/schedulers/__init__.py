"""The examples of ``docs/schedulers.md``, run by Airflow, Dagster and Prefect themselves."""
