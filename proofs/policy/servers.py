"""SeaweedFS as a server that has users with policies."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from proofs.doubles.servers import SeaweedFS

__all__ = ["Seaweed"]

_NEWS_S: Final = 10.0
"""Until every part of the server knows of a user."""


class Seaweed(SeaweedFS):
    """It evaluates policies of IAM: actions, resources with ``*``, conditions with StringLike, and Deny.

    What it does otherwise than AWS: ``s3:PutObject`` also allows to list the parts of an upload and to abort
    it, ``${*}`` is no star, and an object that is not there is always 404.
    """

    def _command(self, home: Path) -> list[str]:
        return [*super()._command(home), "-s3.iam.readOnly=false"]

    def user(self, name: str, policy: Mapping[str, Any]) -> dict[str, str]:
        """Make a user who has this policy alone. Returns ``key`` and ``secret`` for s3fs."""
        iam = self._iam()
        iam.create_user(UserName=name)
        made = iam.create_access_key(UserName=name)["AccessKey"]
        arn = iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(policy))["Policy"]["Arn"]
        iam.attach_user_policy(UserName=name, PolicyArn=arn)
        self._wait_for(made)
        return {"key": made["AccessKeyId"], "secret": made["SecretAccessKey"]}

    def _wait_for(self, made: Mapping[str, str]) -> None:
        """Until the key is known, a request is refused for the key, and not for the policy."""
        from botocore.exceptions import ClientError

        client = self._client("s3", made["AccessKeyId"], made["SecretAccessKey"])
        end = time.monotonic() + _NEWS_S
        while time.monotonic() < end:
            with suppress(ClientError):
                client.list_buckets()
                break
            time.sleep(0.05)
        client.close()
        time.sleep(0.2)

    def _iam(self) -> Any:
        return self._client("iam", self.access_key, self.secret_key)

    def _client(self, service: str, key: str, secret: str) -> Any:
        import botocore.session
        from botocore.config import Config

        return botocore.session.Session().create_client(
            service,
            endpoint_url=self.endpoint,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            region_name=self.region,
            config=Config(proxies={}, s3={"addressing_style": "path"}),
        )
