//! Every sentence about passes, waits, workers and clients as a test of its own, for one store.

/// Makes a test of each sentence. The argument is an async function that makes a fresh [`Bed`](crate::bed::Bed) and
/// something to keep alive for as long as the test runs.
#[macro_export]
macro_rules! pass_sentences {
    ($bed:path) => {
        $crate::pass_sentences!(@ $bed, pass: a_recorded_step_is_replayed_and_not_run, a_value_crosses_the_codec_on_the_first_pass_too, a_failed_effect_is_not_recorded, an_attempt_is_the_same_on_every_replay, a_name_used_twice_ends_the_pass_and_writes_nothing, a_reserved_name_ends_the_pass, a_join_of_step_sleep_and_wait_reports_both_waits, a_suspension_cannot_be_swallowed, siblings_run_on_when_one_branch_suspends, a_body_that_yields_is_polled_again, a_wait_that_is_not_durable_is_allowed, a_dropped_wait_is_not_reported, an_effect_that_returned_is_recorded_though_its_step_was_dropped, a_panic_is_a_failed_pass_with_its_message, a_superseded_pass_ends_at_its_first_write, a_value_that_cannot_be_kept_parks_the_workflow, a_record_that_does_not_decode_is_named_and_stays, a_changed_body_keeps_what_was_done, an_idempotency_key_is_stable, a_drop_runs_once_for_each_pass, a_compensation_runs_once_and_only_on_failure);
        $crate::pass_sentences!(@ $bed, waits: a_sleep_that_crashes_ends_when_it_would_have, a_sleep_until_the_past_goes_on_at_once, now_reads_the_same_on_every_replay, a_value_that_arrived_before_it_was_awaited_is_there, a_limited_wait_times_out_and_the_late_sender_is_told, a_value_in_time_wins_over_the_limit, a_timeout_and_an_arrival_name_the_same_winner, a_recorded_read_of_the_inbox_returns_the_same, a_retried_effect_is_tried_in_place, a_long_wait_between_attempts_is_durable, an_effect_over_its_limit_is_dropped, a_sleep_costs_two_passes, a_limit_is_of_each_attempt);
        $crate::pass_sentences!(@ $bed, driver: the_earliest_deadline_and_every_key_are_reported, a_step_that_was_dropped_is_not_busy, a_body_whose_turn_is_used_up_is_polled_again, what_returned_before_a_sibling_failed_is_recorded, a_store_that_does_not_answer_ends_the_pass, a_reserved_name_is_refused_to_every_verb, a_refused_value_names_workflow_step_and_place, a_value_is_read_straight_into_its_type);
        $crate::pass_sentences!(@ $bed, transacts: an_effect_is_run_once_over_all_passes, an_effect_that_fails_leaves_nothing, an_effect_that_panics_leaves_nothing, an_effect_whose_value_is_refused_leaves_nothing, a_superseded_pass_performs_no_effect, a_value_supplied_for_an_effect_is_returned, an_effect_that_returned_commits_though_its_step_was_dropped, two_effects_side_by_side_both_commit);
        $crate::pass_sentences!(@ $bed, worker: a_started_workflow_comes_to_its_result, a_result_that_stood_there_before_is_the_one_that_is_told, a_type_and_a_function_are_workflows_alike, a_permanent_error_parks_and_a_resume_goes_on, a_failing_workflow_backs_off_and_is_parked, a_panic_does_not_take_the_worker_down, a_workflow_that_kills_its_workers_is_parked, a_cancelled_workflow_runs_its_step_after_a_resume, a_cancelled_pass_is_put_down, a_deleted_workflow_begins_anew, an_input_of_another_type_is_parked_and_named, a_value_before_the_start_waits_for_it, no_kind_starves_another, a_shutdown_hands_back_what_does_not_end, many_waiters_are_all_told, a_value_that_cannot_be_kept_is_parked_and_not_stuck, a_value_that_cannot_be_kept_is_refused_to_its_sender);
        $crate::pass_sentences!(@ $bed, parking: a_kept_body_goes_on_where_it_stands, a_kept_body_finds_what_came_before_it_asked, a_kept_body_replays_after_another_pass, a_kept_body_of_a_cancelled_workflow_replays, the_latest_bodies_are_kept, kept_or_not_comes_to_the_same);
        $crate::pass_sentences!(none kept $bed: a_started_workflow_comes_to_its_result, a_type_and_a_function_are_workflows_alike, a_permanent_error_parks_and_a_resume_goes_on, a_failing_workflow_backs_off_and_is_parked, a_cancelled_workflow_runs_its_step_after_a_resume, a_deleted_workflow_begins_anew, a_value_before_the_start_waits_for_it, a_shutdown_hands_back_what_does_not_end);
    };
    // What a worker does when it keeps no suspended bodies.
    (none kept $bed:path: $($sentence:ident),+) => {
        mod none_kept {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $sentence() {
                    let (mut bed, _kept) = $bed().await;
                    bed.kept = 0;
                    conformance::worker::$sentence(bed).await;
                }
            )+
        }
    };
    (@ $bed:path, $module:ident: $($sentence:ident),+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $sentence() {
                    let (bed, _kept) = $bed().await;
                    conformance::$module::$sentence(bed).await;
                }
            )+
        }
    };
}
