"""The tests of the suite that kill, stop, race, damage, mislead and fill disks: what each does, and what must hold afterwards."""

from __future__ import annotations

from dataclasses import dataclass

CHAPTERS = ("Kills", "Stops and closed streams", "Races", "Damage", "Wrong places", "Full disks and little memory")


@dataclass(frozen=True)
class Sheet:
    """One test and its cases.

    Args:
        done: what is done in it.
        holds: what must hold.
        test: file and function.
        unit: what is counted. A test that does something several times says how often by `record_property("tried", n)`; other
            cases count once.
    """

    chapter: str
    done: str
    holds: str
    test: str
    unit: str

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]

    @property
    def function(self) -> str:
        return self.test.partition("::")[2]


def _chapter(title: str, unit: str, *rows: tuple[str, str, str]) -> tuple[Sheet, ...]:
    return tuple(Sheet(title, done, holds, f"tests/{test}", unit) for done, holds, test in rows)


SHEETS = (
    *_chapter(
        "Kills",
        "kills",
        (
            "`fit` is killed at random moments",
            "there is a whole station or none, and the next call goes on",
            "system/test_kill.py::test_fit",
        ),
        (
            "`calibrate` is killed at random moments",
            "every lot there is has all its files as written; nothing half-written stays",
            "system/test_kill.py::test_calibrate",
        ),
        (
            "`score --out` is killed at random moments",
            "every line there is is right, and in the end the folder equals that of an undisturbed run",
            "system/test_kill.py::test_score",
        ),
        (
            "worker and web server are killed in turn while parts arrive and people decide",
            "each part is judged once; no decision that was answered is lost or doubled",
            "system/web/test_forty_kills.py::test_no_verdict_and_no_decision_is_lost_or_doubled",
        ),
        (
            "the web station's worker is killed while it judges",
            "another goes on; no image is judged twice",
            "system/web/test_faults.py::test_a_killed_worker_comes_back_and_finishes",
        ),
        (
            "the worker is killed while it calibrates",
            "no partial lot; the next worker ends it; after two deaths it stops and says so",
            "system/web/test_faults.py::test_a_worker_killed_while_it_calibrates_leaves_no_partial_lot_and_no_decision_is_lost",
        ),
        (
            "the worker is killed while parts are added to the station",
            "the next worker ends it, once",
            "system/web/test_parts.py::test_a_worker_that_dies_while_it_adds_is_followed_by_one_that_ends_it",
        ),
        (
            "the web server is killed",
            "accepted lots and decisions stand; what was asked for before is done after",
            "system/web/test_faults.py::test_a_killed_server_loses_no_accepted_lot_and_no_decision",
        ),
        (
            "the worker that watches a folder is killed",
            "every file that arrives is judged once",
            "system/web/test_watch.py::test_images_are_judged_as_they_arrive_also_after_kills_and_restarts",
        ),
        (
            "a process is killed while it writes decisions",
            "the database is whole, and every decision that was answered is in it",
            "server/data/test_database.py::test_a_killed_process_loses_no_decision_that_it_answered",
        ),
        (
            "a process is killed while it forgets old images to make room",
            "images, scores and decisions agree",
            "server/data/test_retention.py::test_a_kill_while_room_is_made_breaks_nothing",
        ),
        (
            "a process is killed that holds a lock",
            "the lock is free",
            "files/test_locks.py::test_the_lock_of_a_killed_process_is_free",
        ),
        (
            "`bench run` and all its workers are killed",
            "resumed, the tables are the same bytes",
            "cli/test_bench.py::test_a_run_killed_three_times_and_resumed_gives_the_same_tables",
        ),
        (
            "one of two Ray nodes is killed under `score --engine ray`",
            "every image is judged once, as on one machine",
            "system/test_cluster.py::test_a_node_is_killed_and_every_image_is_judged_once",
        ),
        (
            "a process is killed between the two writes that make a lot active",
            "the station goes on with either, and says which",
            "station/test_pointer.py::test_a_kill_between_the_two_writes_is_fine",
        ),
        (
            "an export of a lot's state is killed",
            "what it left is swept by the next; other people's files stay",
            "export/test_lot_state.py::test_what_a_killed_export_left_behind_is_swept_by_the_next",
        ),
        (
            "a process is killed that writes into a station",
            "what it left is swept; what a living one writes stays",
            "station/test_folder.py::test_what_a_killed_writer_left_is_swept_and_what_a_living_one_has_stays",
        ),
        (
            "`score --out` is killed while it writes a map",
            "what it left half-written is swept",
            "station/test_judged_folder.py::test_what_a_killed_run_left_half_written_is_swept",
        ),
        (
            "`bench run` is killed while it writes",
            "what it left is swept when it goes on",
            "bench/run/test_folder.py::test_what_a_killed_run_was_writing_is_swept_when_it_goes_on",
        ),
        (
            "a process is killed while it fills the feature cache",
            "what it left is ignored, and removed later",
            "bench/run/test_cache.py::test_leftovers_of_a_killed_writer_are_ignored_and_removed_later",
        ),
        (
            "a process is killed while it writes a file",
            "what it left is removed by the next writer, and nothing else",
            "files/test_atomic.py::test_what_killed_writers_left_behind_is_removed_and_nothing_else",
        ),
    ),
    *_chapter(
        "Stops and closed streams",
        "times",
        (
            "a command gets Ctrl-C, SIGTERM or SIGHUP",
            "it ends with the code of that signal and no traceback",
            "cli/test_stopping.py::test_each_signal_ends_the_work_with_its_code",
        ),
        (
            "a command that is writing a file gets Ctrl-C, SIGTERM or SIGHUP",
            "what is half-written is put away; nothing is left",
            "cli/test_stopping.py::test_what_was_being_written_is_put_away",
        ),
        (
            "Ctrl-C while modules are loaded",
            "no traceback",
            "cli/test_stopping.py::test_ctrl_c_while_modules_are_loaded_shows_no_traceback",
        ),
        (
            "Ctrl-C under `serve`",
            "server and worker end without a traceback",
            "cli/test_serve.py::test_ctrl_c_ends_it_and_its_worker_without_a_traceback",
        ),
        (
            "Ctrl-C under `bench run`",
            "its workers end, and put away what they were writing",
            "bench/run/test_local_runner.py::test_ctrl_c_is_heard_by_the_run_alone_and_a_dismissed_worker_puts_away_what_it_writes",
        ),
        (
            "standard output lies on a full disk",
            "said in a sentence, exit code 1",
            "cli/test_streams.py::test_standard_output_on_a_full_disk",
        ),
        (
            "standard output is closed",
            "nobody listens, which is no error",
            "cli/test_streams.py::test_a_closed_standard_output_is_nobody_listening",
        ),
        (
            "standard error is full, closed or not read",
            "the exit code is that of the work",
            "cli/test_streams.py::test_what_nobody_can_read_changes_no_exit_code",
        ),
        (
            "the reader of a pipe, such as `head`, has gone",
            "silence, no traceback",
            "cli/test_streams.py::test_a_reader_that_has_gone_gets_silence",
        ),
    ),
    *_chapter(
        "Races",
        "calls at once",
        (
            "calibrations of one name",
            "one wins, the others are refused in a sentence",
            "station/test_folder.py::test_of_two_calibrations_at_once_with_one_name_one_wins",
        ),
        (
            "calibrations of different names",
            "all stand",
            "station/test_folder.py::test_two_calibrations_at_once_with_two_names_both_stand",
        ),
        (
            "two fits of one station",
            "the second is refused in a sentence",
            "station/test_folder.py::test_two_fits_at_once_are_refused",
        ),
        (
            "browsers calibrate and decide about one lot",
            "one calibration, one decision, the others are told",
            "system/web/test_faults.py::test_two_browsers_calibrating_at_once_make_one_lot",
        ),
        (
            "processes fill one feature cache",
            "they share the work, and the features are right",
            "bench/run/test_cache.py::test_two_writers_at_once_agree_and_share_the_work",
        ),
    ),
    *_chapter(
        "Damage",
        "damaged files",
        (
            "a file of a station is spoilt, then a quick command runs",
            "it answers as before, or refuses in sentences",
            "system/test_damage.py::test_every_damage_under_every_quick_command",
        ),
        (
            "the same for some damages and the longer commands",
            "as above",
            "system/test_damage.py::test_some_damages_under_the_others",
        ),
        (
            "the same for every damage and the longer commands",
            "as above",
            "system/test_damage.py::test_every_damage_under_the_others",
        ),
        (
            "a lot is damaged",
            "the others are listed and judge",
            "system/test_damage.py::test_one_damaged_lot_hides_none_of_the_others",
        ),
        (
            "an image that comes over the network is a bomb, cut short or none",
            "refused with a sentence, by the worker",
            "system/web/test_faults.py::test_bombs_and_damage_are_refused_by_the_worker_with_a_sentence",
        ),
        (
            "an entry of the feature cache is cut short",
            "it is made again",
            "bench/run/test_cache.py::test_a_damaged_entry_is_made_again",
        ),
        (
            "the folder of the active lot, or of all lots, is removed",
            "said, and nothing else judges in its place",
            "cli/test_lots.py::test_lots_that_have_gone_are_no_reason_to_judge_by_something_else",
        ),
        (
            "a line of the rows in `score --out` is damaged",
            "refused with its number; the others stay",
            "station/test_judged_folder.py::test_a_damaged_line_is_refused_and_hides_none_of_the_others",
        ),
        (
            "a pipe or a folder in the place of a record",
            "refused; nobody waits for it",
            "files/test_json_record.py::test_a_pipe_in_the_place_of_a_record_is_not_waited_for",
        ),
        (
            "a pipe in the place of features",
            "as above",
            "station/test_folder.py::test_a_pipe_in_the_place_of_features_is_not_waited_for",
        ),
        (
            "a pipe in the place of rows",
            "as above",
            "station/test_judged_folder.py::test_a_pipe_in_the_place_of_the_rows_is_not_waited_for",
        ),
    ),
    *_chapter(
        "Wrong places",
        "calls",
        (
            "each path that a command takes leads to a file, a pipe, below a file, round in a loop, nowhere, is too long or empty",
            "one sentence before the work, exit code 2, nothing made or changed",
            "cli/test_places.py::test_the_wrong_kind_of_thing_at_a_path_is_a_wrong_call",
        ),
        (
            "the folder that a command works in was removed",
            "one sentence, exit code 2",
            "cli/test_places.py::test_a_removed_working_folder_is_one_sentence",
        ),
        (
            "a file is to be written where a device or a folder is",
            "it is not replaced",
            "files/test_atomic.py::test_a_device_or_a_folder_is_never_replaced",
        ),
        (
            "a folder is to be made where a link leads nowhere",
            "refused; nothing is made",
            "files/test_atomic.py::test_a_link_that_leads_nowhere_is_no_folder_and_nothing_is_made",
        ),
        (
            "an encoder is named that nobody knows",
            "one sentence with close names, exit code 2, no folder left",
            "encoders/test_known_models.py::test_the_call_is_wrong_and_nothing_is_left_behind",
        ),
    ),
    *_chapter(
        "Full disks and little memory",
        "refusals",
        (
            "a real file system runs full under the web station",
            "it says so, holds still, lets people make room, and goes on",
            "system/web/test_full_disk.py::test_a_full_disk_loses_nothing_and_stops_nobody_from_making_room",
        ),
        (
            "the disk runs full at each step of writing a lot",
            "one sentence, no lot, no litter; the same call works later",
            "station/test_calibrating.py::test_a_full_disk_leaves_no_lot_and_no_litter",
        ),
        (
            "the disk runs full while a station is fitted",
            "one sentence, no station; the same call goes on",
            "station/test_calibrating.py::test_a_full_disk_while_fitting_leaves_no_station_and_the_same_call_goes_on",
        ),
        (
            "too little room for a fit",
            "said at its first image, with both numbers",
            "station/test_space.py::test_how_much_room_a_fit_needs_is_said_at_its_first_image",
        ),
        (
            "too little room for a lot",
            "said before an image is read",
            "station/test_space.py::test_how_much_room_a_lot_needs_is_said_before_its_images_are_read",
        ),
        (
            "too little room for the feature cache",
            "said at its first image; half precision and a limit help",
            "bench/run/test_cache.py::test_too_little_room_is_said_at_the_first_image_and_a_limit_helps",
        ),
        (
            "too little room for an export",
            "said before anything is traced",
            "export/test_lot.py::test_too_little_room_is_said_before_anything_is_traced",
        ),
        (
            "too little memory for a fit",
            "said at its first image",
            "station/test_space.py::test_how_much_memory_a_fit_needs_is_said_at_its_first_image",
        ),
        (
            "too little memory for a lot",
            "said before it runs out",
            "station/test_space.py::test_too_little_memory_is_said_before_it_runs_out",
        ),
        (
            "the disk is full under a job of the web station",
            "the job waits and goes on",
            "server/work/test_worker.py::test_on_a_full_disk_a_job_waits_and_goes_on_when_there_is_room",
        ),
    ),
)
