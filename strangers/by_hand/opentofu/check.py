"""`check.py BUCKET`: if apply ended with 0, the state has its resource; no lock is left."""

import json
import os
import sys

from highwater.impl.stores.s3 import connect

bucket = sys.argv[1]
client = connect(os.environ["AWS_ENDPOINT_URL"])
keys = [one["Key"] for one in client.list_objects_v2(Bucket=bucket).get("Contents", ())]
state = json.loads(client.get_object(Bucket=bucket, Key="state")["Body"].read()) if "state" in keys else {"resources": []}
assert os.environ["HIGHWATER_EXIT"] != "0" or state["resources"], keys
assert not any("lock" in key for key in keys), f"a lock is left: {keys}"
