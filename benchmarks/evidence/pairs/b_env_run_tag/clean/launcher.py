import os
import uuid


def prepare():
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("RUN_GROUP", "attention-sweep")
    os.environ.setdefault("RUN_TAG", f"trial-{uuid.uuid4().hex}")
