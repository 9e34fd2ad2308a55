"""Where people got hurt: public threads about backups, edits, confirming and transports, and the tests of their kinds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
_CONFORMANCE = "hosts/conformance.py::"
_FAULTS = "hosts/test_faults.py::"
_TRANSACTION = "hosts/test_transaction.py::"
_ODD = "hosts/test_odd_files.py::"
_LINES = "hosts/test_lines_and_shells.py::"
_MATRIX = "faults/test_matrix.py::test_on_the_host_and_on_the_way"
_SHAPE = "knobs/test_shapes.py::test_edit shapes/"

_CONFIRMING = "confirming/test_confirming.py::"
_PLAIN = "services/test_plain.py::"
_TORN = "faults/test_in_place.py::test_torn"

THREADS = {
    # backups
    "ansible#29639": ("test_pruning.py::test_what_is_in_effect_can_still_be_reverted",),
    "ansible#9027": (_CONFORMANCE + "test_backup_names_are_exclusive",),
    "community.general#12011": (_ODD + "test_nothing_to_change_writes_nothing",),
    "ansible#11837": (
        _CONFORMANCE + "test_replace_proves_what_it_did",
        _CONFORMANCE + "test_absolute_backup_directory",
    ),
    "ansible#27344": (_ODD + "test_an_odd_file", _TRANSACTION + "test_the_backup_directory_is_private"),
    "salt#19643": (_ODD + "test_an_odd_file", _TRANSACTION + "test_the_backup_directory_is_private"),
    "puppet#5704": (_ODD + "test_one_flipped_byte_in_a_backup_stops_the_restore",),
    "oxidized#2346": (_ODD + "test_50_megabytes", _CONFORMANCE + "test_five_megabytes"),
    "napalm#1952": (_CONFORMANCE + "test_changed_bytes_are_drift_and_nothing_is_written",),
    "python-dotenv#367": (_ODD + "test_an_odd_file",),
    # edits
    "ansible#34690": (_SHAPE + "repeat-last-wins.sh", "knobs/test_editing.py::test_add_sets_what_is_there"),
    "ansible#30235": (_SHAPE + "repeat-last-wins.sh",),
    "ansible#76668": (_SHAPE + "repeat-last-wins.sh",),
    "pyinfra#1783": (_SHAPE + "comment-only.sh", _SHAPE + "comment-beside-active.sh"),
    "ansible#85283": (_SHAPE + "bytes-crlf.sh", _ODD + "test_an_odd_file"),
    "ansible#15368": ("knobs/test_editing.py::test_values_arrive_literally",),
    "ansible#6986": (
        _CONFORMANCE + "test_a_symbolic_link_stays_and_its_target_is_changed",
        _ODD + "test_an_odd_file",
    ),
    "salt#20910": (_CONFORMANCE + "test_a_symbolic_link_stays_and_its_target_is_changed",),
    "ansible-modules-core#4188": (_TRANSACTION + "test_a_bind_mounted_file", _ODD + "test_an_odd_file"),
    "ansible#13981": (_TRANSACTION + "test_a_bind_mounted_file", _TORN),
    "ansible#83972": (_TRANSACTION + "test_ownership_that_can_not_be_kept_is_refused",),
    "ansible#25389": (_TRANSACTION + "test_attributes_that_can_not_be_kept_are_not_lost",),
    "nextcloud#25175": (_MATRIX, _TRANSACTION + "test_a_disk_that_gets_full_while_writing"),
    "moby#38797": (_MATRIX, _TRANSACTION + "test_a_full_disk_is_seen_before_anything_is_written"),
    "salt#69583": (_MATRIX, _FAULTS + "test_killed_before_every_command_of_the_transaction"),
    "ansible#64899": (
        "faults/test_at_once.py::test_of_two_workspaces_one_wins",
        "services/test_meanwhile.py::test_a_change_in_the_same_workspace_names_who_made_it",
    ),
    "python-dotenv#360": (_SHAPE + "bytes-tabs-no-end.sh",),
    "python-dotenv#647": ("knobs/test_editing.py::test_values_arrive_literally",),
    "shellcheck#2132": (_SHAPE + "cont-comment-cuts.sh",),
    # confirm and roll back
    "deploy-rs#214": (_CONFIRMING + "test_nobody_confirms",),
    "deploy-rs#246": (_CONFIRMING + "test_nobody_confirms",),
    "deploy-rs#86": (_CONFIRMING + "test_the_way_back_is_rehearsed",),
    "deploy-rs#68": (_PLAIN + "test_the_deadline_restarts_what_the_change_restarted",),
    "ansible#40626": (
        _CONFIRMING + "test_the_client_is_killed",
        "confirming/test_timer.py::test_it_survives_a_reboot",
    ),
    "nornir_napalm#69": (_CONFIRMING + "test_what_waits_is_said_under_every_command",),
    "luci#3628": (_PLAIN + "test_a_window_that_the_start_would_use_up_is_refused",),
    "network-role#154": (_CONFIRMING + "test_one_at_a_time",),
    "netplan#548": (_CONFIRMING + "test_nobody_confirms",),
    "napalm#1701": (_CONFIRMING + "test_somebody_edits_the_file_meanwhile", _MATRIX, _TORN),
    "helm#5237": ("test_undo.py::test_undo_keeps_later_edits", "test_undo.py::test_undo_refuses_to_guess"),
    "capistrano#1885": (
        "test_undo.py::test_undo_keeps_later_edits",
        "services/test_meanwhile.py::test_a_change_by_another_workspace_is_told_to_whoever_restarts",
    ),
    # transport
    "kamal#656": (_TRANSACTION + "test_a_lock_never_outlives_its_holder", _MATRIX),
    "ansible#2268": (_LINES + "test_login_shells_that_are_noisy",),
    "asyncssh#591": (_LINES + "test_a_cut_connection_is_unknown_and_then_settled",),
    "paramiko#489": (_LINES + "test_a_cut_connection_is_unknown_and_then_settled",),
    "pyinfra#1440": (_LINES + "test_nothing_is_executed_from_temporary_folders",),
    "pyinfra#761": (_LINES + "test_login_shells_that_are_noisy",),
    "pyinfra#880": (_LINES + "test_nothing_is_executed_from_temporary_folders",),
}
"""thread: tests, and of tests over data the file that is meant"""


@pytest.mark.parametrize("thread", THREADS)
def test_a_thread_is_covered(thread: str) -> None:
    for node in THREADS[thread]:
        test, _, data = node.partition(" ")
        file, name = test.split("::")
        assert re.search(rf"^ *def {name}\(", (TESTS / file).read_text("utf-8"), re.MULTILINE), node
        assert not data or (TESTS / data).is_file(), node
