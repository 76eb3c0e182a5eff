"""How refusals read: error codes, their messages, and their names in the table of rights."""

from __future__ import annotations

from insync.wire.errors import ErrorCode

CLUSTER_REFUSED = ErrorCode.cluster_authorization_failed
TOPIC_REFUSED = ErrorCode.topic_authorization_failed
GROUP_REFUSED = ErrorCode.group_authorization_failed
TRANSACTIONAL_ID_REFUSED = ErrorCode.transactional_id_authorization_failed

MESSAGES = {
    CLUSTER_REFUSED: "Cluster authorization failed.",
    TOPIC_REFUSED: "Topic authorization failed.",
    GROUP_REFUSED: "Group authorization failed.",
}

CLUSTER_ERROR = "CLUSTER_AUTHORIZATION_FAILED"
TOPIC_ERROR = "TOPIC_AUTHORIZATION_FAILED"
GROUP_ERROR = "GROUP_AUTHORIZATION_FAILED"
TRANSACTIONAL_ID_ERROR = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
