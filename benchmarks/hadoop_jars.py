"""Hadoop's S3A connector beside PySpark: jars from Maven Central, and the peer compiled against them.

PySpark has Hadoop itself. What it has not is ``hadoop-aws``, the parts of the AWS SDK that this calls, and
the classes that lead Spark's writers to S3A's committers. Maven fetches them, as its own configuration says;
the SDK's bundle of all services (686 MB) is left out for the five modules that are used (13 MB). For an older
Hadoop than PySpark's its client comes, too (50 MB); Spark itself does not run on that.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.flights.java import find_java

__all__ = ["Jars", "MissingTool", "Unreachable", "hadoop_version", "make", "pom_text", "spark_jars"]

_SPARK_CLOUD: Final = "4.1.2"
"""Of ``spark-hadoop-cloud``: Maven Central has none for newer releases of Spark, and these classes are the
same for all of S3A's committers."""

_SDK: Final = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
_OLD_SDK: Final = ("s3", "sts", "kms", "dynamodb")
"""Of Hadoop 3.3, which is built on the first generation of the SDK."""
_IN_SPARK: Final = ("io.netty", "org.slf4j", "org.apache.httpcomponents", "commons-logging", "commons-codec")
_PEER: Final = Path(__file__).with_name("HadoopPeer.java")
_TOOL_S: Final = 600.0
_LINES: Final = 25
_NO_WAY: Final = re.compile(
    r"Could not transfer|[Uu]nknown host|Connect(ion)? (refused|timed out|reset)|unreachable"
)


class MissingTool(RuntimeError):
    """Maven, a Java compiler, or something that they need is not here. The message says what to install."""


class Unreachable(MissingTool):
    """There is no way to Maven Central from here."""


@dataclass(frozen=True, slots=True)
class Jars:
    """What a JVM needs to be Hadoop's side.

    Attributes:
        connector: Jars of the connector and of what it needs.
        peer: Directory of the compiled peer.
        hadoop: Hadoop's version.
    """

    connector: tuple[Path, ...]
    peer: Path
    hadoop: str

    @property
    def class_path(self) -> str:
        """For Spark's driver."""
        return ":".join(map(str, self.connector))

    @property
    def peer_class_path(self) -> str:
        """For the peer, which is led by Spark's jars, too; but not by their Hadoop if it has its own."""
        if not any(path.name.startswith("hadoop-client-api-") for path in self.connector):
            return f"{self.peer}:{self.class_path}:{spark_jars()}/*"
        others = (one for one in spark_jars().glob("*.jar") if not one.name.startswith("hadoop-"))
        return ":".join([str(self.peer), self.class_path, *map(str, sorted(others))])


def spark_jars() -> Path:
    """The directory of PySpark's jars."""
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def hadoop_version(names: Sequence[str] | None = None) -> str:
    """The version of the Hadoop that PySpark brings.

    Args:
        names: Names of its jars; by default those that are here.

    Raises:
        MissingTool: There is none.
    """
    found = [path.name for path in spark_jars().glob("*.jar")] if names is None else names
    for name in found:
        if match := re.fullmatch(r"hadoop-client-api-(\d[\w.]*)\.jar", name):
            return match[1]
    raise MissingTool("PySpark has no hadoop-client-api here, so there is no Hadoop to measure beside")


def pom_text(hadoop: str, *, own_client: bool = False) -> str:
    """The project file for Maven. Hadoop's own one, its parent, names the version of the SDK.

    ``own_client``: with Hadoop itself, too, because PySpark brings another one.
    """
    is_old = hadoop.startswith("3.3.")
    group, bundle = (
        ("com.amazonaws", "aws-java-sdk-bundle") if is_old else ("software.amazon.awssdk", "bundle")
    )
    version = "${aws-java-sdk.version}" if is_old else "${aws-java-sdk-v2.version}"
    names = [f"aws-java-sdk-{name}" for name in _OLD_SDK] if is_old else _SDK
    modules = "".join(
        f"    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></dependency>\n"
        for name in names
    )
    for name in ("hadoop-client-api", "hadoop-client-runtime") if own_client else ():
        modules += (
            f"    <dependency><groupId>org.apache.hadoop</groupId><artifactId>{name}</artifactId>"
            f"<version>{hadoop}</version></dependency>\n"
        )
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>org.apache.hadoop</groupId><artifactId>hadoop-project</artifactId><version>{hadoop}</version>
    <relativePath/>
  </parent>
  <groupId>magicfs.benchmarks</groupId>
  <artifactId>hadoop-peer</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>{hadoop}</version>
      <exclusions>
        <exclusion><groupId>{group}</groupId><artifactId>{bundle}</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>spark-hadoop-cloud_2.13</artifactId>
      <version>{_SPARK_CLOUD}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
{modules}  </dependencies>
</project>
"""


def make(directory: Path, hadoop: str | None = None) -> Jars:
    """Fetch the jars into a directory, and compile the peer there.

    Args:
        directory: Where they go.
        hadoop: Which Hadoop; by default that of PySpark.

    Raises:
        Unreachable: Maven Central does not answer.
        MissingTool: Maven or the compiler is missing, or failed.
    """
    maven = _tool("mvn", "Maven (Debian, Ubuntu: apt-get install maven)")
    compiler = _compiler()
    here, jars, peer = hadoop_version(), directory / "jars", directory / "classes"
    wanted = hadoop or here
    for made in (jars, peer):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
    text = pom_text(wanted, own_client=wanted != here)
    (directory / "pom.xml").write_text(text, encoding="utf-8")
    _run(
        [
            *(maven, "--batch-mode", "--quiet", "dependency:copy-dependencies"),
            *("-DincludeScope=runtime", f"-DexcludeGroupIds={','.join(_IN_SPARK)}"),
            f"-DoutputDirectory={jars}",
        ],
        directory,
        "Maven has not fetched the jars; it needs a way to Maven Central or a mirror (~/.m2/settings.xml)",
    )
    made_jars = Jars(tuple(sorted(jars.glob("*.jar"))), peer, wanted)
    command = [compiler, "-nowarn", "-cp", made_jars.peer_class_path, "-d", str(peer), str(_PEER)]
    _run(command, directory, f"{_PEER.name} does not compile against Hadoop {wanted}")
    return made_jars


def _compiler() -> str:
    """The compiler of the Java that Spark starts, else the one on the path."""
    java = find_java()
    beside = java.path.parent / "javac" if java is not None else None
    if beside is not None and beside.exists():
        return str(beside)
    return _tool("javac", "a JDK (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless)")


def _tool(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingTool(
            f"there is no {name} here, which fetches or builds Hadoop's side; install {package}"
        )
    return found


def _run(command: Sequence[str], directory: Path, problem: str) -> None:
    done = subprocess.run(  # noqa: S603 - programs of this machine
        command, cwd=directory, capture_output=True, text=True, timeout=_TOOL_S, check=False
    )
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-_LINES:])
        raise (Unreachable if _NO_WAY.search(tail) else MissingTool)(f"{problem}\n{tail}")
