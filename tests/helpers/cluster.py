"""A Spark cluster for tests: a master and two workers on this machine, or a visible skip that says what is missing."""

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

REQUIRED = "IFONLY_SPARK"  # in the environment, with the value "required": a missing pyspark or Java is a failure
QUIET = "ignore:PySpark does not yet fully support pandas:FutureWarning"  # pandas is not used here
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "2",  # once more, for the task of an executor that is killed
    # Spark Connect from the same processes, at any port that is free: another server takes ten seconds to begin.
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    # For jobs of seconds: compiling queries and optimising the JVM's own code costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
}


def missing(reason):
    """Skip, or fail where Spark is required."""
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{reason}, and {REQUIRED}=required")
    pytest.skip(reason, allow_module_level=True)


def check():
    """Skip the whole module where Spark cannot run."""
    try:
        import pyspark
    except ImportError:
        missing("pyspark is not installed")
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and (Path(home) / "bin" / "java").exists())):
        missing(f"pyspark {pyspark.__version__} needs Java 17 or newer (Debian: openjdk-17-jre-headless), and there is none")


@contextmanager
def cluster(folder):
    """A session on a cluster of two executors with one core each, processes of their own."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("ifonly")
        for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(folder)}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            import pyspark

            logs = Path(pyspark.__file__).parent / "work" / session.sparkContext.applicationId
            session.stop()
            shutil.rmtree(logs, ignore_errors=True)  # a local cluster leaves its workers' logs beside the package


def remote(session):
    """Where Spark Connect finds the cluster of a session."""
    service = getattr(session.sparkContext._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return f"sc://127.0.0.1:{getattr(service, 'MODULE$').localPort()}"


def executors(session):
    """The process of each executor, from tasks that run on all of them: a worker's parent is a daemon, whose parent it is."""

    def where(batches):  # sent to the workers as it stands here, which know nothing of this module
        import os
        import time
        from pathlib import Path

        import pyarrow as pa

        for batch in batches:
            time.sleep(0.2)
            executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
            yield pa.record_batch({"pid": pa.array([executor] * len(batch))})

    return {row.pid for row in session.range(8, numPartitions=8).mapInArrow(where, "pid long").collect()}
