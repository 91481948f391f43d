"""A plain Spark job: private synthetic rows of a table, made by the cluster that holds it.

    spark-submit examples/spark_job.py --source s3a://lake/trips --schema trips.toml \\
        --state /state/trips --out s3a://lake/trips-synthetic

Executors need the driver's build of fastdp. `--state` is the run's folder, on a disk that outlives
the job: what was charged and answered is kept beside it, and a job that died and is started again
with --resume carries on with the same noise.
"""

import argparse

from pyspark.sql import SparkSession

import fastdp


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--schema", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--partitions", type=int, help="at most about 20 million rows in each")
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()

    spark = SparkSession.builder.appName("synthetic trips").getOrCreate()
    try:
        run = fastdp.synthesize(
            spark.read.parquet(given.source),
            "mst",
            given.epsilon,
            given.delta,
            schema=given.schema,
            clip=3,
            partitions=given.partitions,
            out=given.state,
            resume=given.resume,
        )
        run.to_spark(spark).write.mode("errorifexists").parquet(given.out)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
