"""No key, SAS token or bearer token of Azure is in a file, pickle, log, message, repr or report of a job."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import logging
import pickle
import ssl
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import aiohttp
import pytest
from adlfs import AzureBlobFileSystem
from azure.core.credentials import AccessToken
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import magicfs
from magicfs.errors import MagicError, PermissionDenied, StoreError
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve
from magicfs.stores.azure import folders as azure_folders
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.adls_server import AdlsDouble
from proofs.doubles.azure_operations import azure_operation
from proofs.doubles.azurite import AzureView
from proofs.scenes.arranged import arranged

NAMES = ("día 1/50% +#ä.csv", "dataset1/x", "dataset10/x", "empty")
HOUR = dt.timedelta(hours=1)
# Work files are written by adlfs itself, and it sends them in a way that aiohttp warns of.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
    pytest.mark.sample,
]


class Token:
    """A credential that has got its token from Entra ID already."""

    def __init__(self, token: str) -> None:
        self.token = token

    async def get_token(self, *_scopes: str, **_how: Any) -> AccessToken:
        return AccessToken(self.token, int(time.time()) + 3600)

    async def close(self) -> None:
        pass


def with_key(server: AzureView, endpoint: str) -> dict[str, Any]:
    return {"connection_string": server.connection_string(endpoint)}


def with_sas(server: AzureView, endpoint: str) -> dict[str, Any]:
    permission = AccountSasPermissions(
        read=True, write=True, delete=True, list=True, add=True, create=True, update=True
    )
    kinds = ResourceTypes(service=True, container=True, object=True)
    sas = generate_account_sas(server.account, server.key, kinds, permission, dt.datetime.now(dt.UTC) + HOUR)
    return {"connection_string": f"BlobEndpoint={endpoint}/{server.account};SharedAccessSignature={sas}"}


def with_token(server: AzureView, endpoint: str) -> dict[str, Any]:
    assert isinstance(server, AdlsDouble)
    return {
        "account_name": server.account,
        "account_host": f"{endpoint.removeprefix('https://')}/{server.account}",
        "credential": Token(server.token),
    }


def secrets_in(options: dict[str, Any]) -> list[str]:
    """What must not come out, as it is and as it travels."""
    if "credential" in options:
        return [options["credential"].token]
    told = dict(one.partition("=")[::2] for one in options["connection_string"].split(";") if one)
    if "AccountKey" in told:
        return [told["AccountKey"].rstrip("=")]
    sas = told["SharedAccessSignature"]
    [signature] = parse_qs(sas)["sig"]
    return [signature, *(one[4:] for one in sas.split("&") if one.startswith("sig="))]


@dataclass
class Access:
    """A container behind a proxy, and one way to be let in."""

    server: AzureView
    container: str
    proxy: FaultProxy
    options: dict[str, Any]
    said: list[str] = field(default_factory=list)
    pickled: list[bytes] = field(default_factory=list)

    def job(self, **how: Any) -> magicfs.Job:
        url = f"abfs://{self.container}/sales ü"
        return magicfs.Job(url, storage_options=self.options, progress=None, **arranged(**how))

    def hear(self, *told: Any) -> None:
        """Remember all that can be shown of something."""
        for one in told:
            self.said += [str(one), repr(one)]
            if isinstance(one, BaseException):
                self.said += traceback.format_exception(one)
            with suppress(TypeError):  # what no pickle takes gives no secret away
                self.pickled.append(pickle.dumps(one))

    def hear_files(self) -> None:
        self.pickled += [
            self.server.read(self.container, key) or b"" for key in self.server.all_keys(self.container)
        ]

    def check(self, log: pytest.LogCaptureFixture, *more: str) -> None:
        assert log.records
        for secret in (*secrets_in(self.options), *more):
            assert secret not in log.text
            assert not [text for text in self.said if secret in text]
            assert not [one for one in self.pickled if secret.encode() in one]


WAYS: dict[str, tuple[str, Callable[[AzureView, str], dict[str, Any]]]] = {
    "a key of Azurite": ("azurite", with_key),
    "a SAS token of Azurite": ("azurite", with_sas),
    "a key of a lake": ("adls", with_key),
    "a SAS token of a lake": ("adls", with_sas),
    "a bearer token of a lake": ("adls", with_token),
}
LAKES = [name for name, (server, _) in WAYS.items() if server == "adls"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and what proves it, of this machine and this hour."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "magicfs")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now - HOUR, now + HOUR
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def access(
    server: Callable[[str], Any],
    bucket_factory: Callable[..., str],
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Access]:
    name, made = WAYS[request.param]
    running = server(name)
    tls = None
    if made is with_token:  # the SDK sends none without TLS
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
        trusting = ssl.create_default_context(cafile=certificate)
        monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)
    AzureBlobFileSystem.clear_instance_cache()
    azure_folders._known.clear()
    with FaultProxy(running.endpoint, azure_operation, tls) as proxy:
        options = made(running, proxy.endpoint)
        if "connection_string" in options:
            monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", options["connection_string"])
        yield Access(running, bucket_factory(running, "secrets"), proxy, options)
        AzureBlobFileSystem.clear_instance_cache()
    azure_folders._known.clear()


def write(job: magicfs.Job, number: int, *names: str) -> magicfs.TaskCommit:
    with job.task(number) as task:
        for name in names:
            task.filesystem.pipe_file(f"{task.path}/{name}", b"12345")
    return job.commits[-1]


@pytest.mark.parametrize("access", WAYS, indirect=True)
def test_no_secret_is_anywhere(access: Access, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    running = access.job(mode="append").setup()
    commits = [write(running, 0, *NAMES)]
    task = running.task(1)
    access.hear(running, running.spec, running.found, task, commits[0], task.setup().filesystem)
    access.said.append(json.dumps(running.spec._magic_filesystem().to_dict(), default=repr))
    if "connection_string" in access.options:  # another process finds that one by itself
        copy = pickle.loads(pickle.dumps(running))
        commits.append(write(copy, 2, "from a pickle"))
    access.hear_files()
    running.commit(commits)
    access.hear(running, running.report)
    access.hear_files()
    access.check(caplog)


@pytest.mark.parametrize("access", ["a key of Azurite", "a SAS token of Azurite"], indirect=True)
def test_no_wrong_secret_is_in_what_is_said_of_it(access: Access, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    right = secrets_in(access.options)
    text = access.options["connection_string"]
    wrong = [secret.swapcase() for secret in right]
    for one, other in zip(right, wrong, strict=True):
        text = text.replace(one, other)
    nowhere = text.replace(access.proxy.endpoint, "http://127.0.0.1:1")
    for given, kind in ((text, PermissionDenied), (nowhere, StoreError)):
        filesystem = AzureBlobFileSystem(connection_string=given)
        store = resolve.open_store(filesystem, access.container).inner  # type: ignore[attr-defined]
        with pytest.raises(kind) as refused:
            run_on(resolve.loop_of(filesystem), store.head, "x")
        access.hear(refused.value)
    access.check(caplog, *wrong)


@pytest.mark.parametrize("action", [Action.ERROR, Action.LOST_500, Action.LOST])
@pytest.mark.parametrize("access", LAKES, indirect=True)
def test_no_secret_comes_out_where_a_rename_is_not_answered(
    access: Access, action: Action, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    how = {"committer": "manifest", "mode": "append"}
    with access.job(**how) as first:
        write(first, 0, "old")
    running = access.job(**how).setup()
    commit = write(running, 0, *NAMES)
    times, status = (None, 403) if action is Action.ERROR else (1, 500)
    access.proxy.add(Rule("Path Rename", action, times=times, status=status, code="AuthorizationFailure"))
    if action is Action.ERROR:
        with pytest.raises(MagicError) as refused:
            running.commit([commit])
        access.hear(running, refused.value)
    else:
        running.commit([commit])
        access.hear(running, running.report)
    assert action in {request.action for request in access.proxy.requests}
    access.hear_files()
    access.check(caplog)
