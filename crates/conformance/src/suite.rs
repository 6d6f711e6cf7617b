//! Every sentence about stores as a test of its own, for one store.

/// Makes a test of each sentence of the groups named, so that the list of tests of a store reads as the contract.
///
/// `conformance_suite!(Postgres: checkpointer, scheduler, durable);` where `Postgres` is a
/// [`Fixture`](crate::fixture::Fixture). A group is left out where a store cannot promise it, with the reason beside it.
#[macro_export]
macro_rules! conformance_suite {
    ($fixture:ty: $($group:ident),+ $(,)?) => {
        $($crate::conformance_suite!(@group $group $fixture);)+
    };
    (@group checkpointer $fixture:ty) => {
        $crate::conformance_suite!(@tests checkpointer $fixture:
            a_workflow_that_never_ran_has_no_records
            records_come_in_the_order_of_their_first_writes
            a_losing_write_moves_nothing
            a_record_tells_when_its_winning_write_was_made
            a_write_says_who_won
            of_concurrent_writers_exactly_one_is_first
            what_one_handle_recorded_another_reads
            names_are_kept_as_they_are
            names_that_no_store_keeps_are_refused
            a_value_comes_back_to_the_byte
            a_value_is_supplied_while_a_pass_runs
            entries_sort_in_append_order
            an_entry_is_an_ordinary_record
            concurrent_appends_lose_nothing_and_come_in_order
            a_discard_removes_the_records_and_counts_them
            a_late_pass_that_nobody_superseded_may_write
        );
    };
    (@group claims $fixture:ty) => {
        $crate::conformance_suite!(@tests claims $fixture:
            a_workflow_that_was_never_seen_is_granted
            a_held_workflow_is_not_granted
            of_concurrent_claimers_exactly_one_is_granted
            tokens_rise_over_everything
            a_claim_is_taken_over_when_its_lease_is_over
            a_released_workflow_is_granted_at_once
            a_release_keeps_the_token
            a_renewal_holds_the_workflow_for_another_lease
            a_renewal_says_of_each_whether_it_holds
            a_claim_that_ran_out_and_was_not_taken_is_renewed
            a_late_renewal_does_not_hold_a_released_workflow
            a_superseded_pass_cannot_record
            a_superseded_pass_cannot_release
            a_cancelled_or_discarded_pass_cannot_write
            nothing_is_recorded_behind_the_back_of_a_new_pass
            an_unsettled_claim_counts_as_a_failed_attempt
            attempts_count_the_failures_since_a_pass_got_somewhere
            interrupted_names_the_step_that_a_renewal_announced
            a_workflow_that_is_over_is_not_granted
            a_cancel_changes_nothing_of_what_is_over_or_unseen
            a_reopened_workflow_is_granted_with_its_attempts_forgotten
            only_failed_and_cancelled_workflows_are_reopened
        );
    };
    (@group transact $fixture:ty) => {
        $crate::conformance_suite!(@tests transact $fixture:
            an_effect_and_its_record_commit_together
            a_recorded_effect_is_not_run_again
            no_transaction_is_opened_over_a_record
            a_fenced_pass_opens_no_transaction
            a_dropped_transaction_leaves_nothing
            an_effect_that_writes_its_own_row_is_refused
            an_effect_may_write_another_row
        );
    };
    (@group beside $fixture:ty) => {
        $crate::conformance_suite!(@tests beside $fixture:
            an_effect_rolls_back_when_its_pass_is_fenced_meanwhile
            a_value_supplied_meanwhile_wins_over_the_effect
            of_two_runs_of_an_effect_exactly_one_commits
            renewals_and_records_land_while_an_effect_runs
        );
    };
    (@group scheduler $fixture:ty) => {
        $crate::conformance_suite!(@tests scheduler $fixture:
            what_was_made_ready_is_yielded
            made_ready_twice_is_as_once
            a_delivery_of_a_dead_worker_is_yielded_again
            a_sleeper_is_yielded_on_time
            a_sleep_until_the_past_is_over_at_once
            a_sleeper_that_is_made_ready_is_due_at_once
            a_wakeup_mid_pass_survives_done
            a_wakeup_mid_pass_survives_wake_at
            a_wakeup_taken_by_another_survives_the_answer_of_the_first
            an_extension_hides_for_another_lease
            an_old_receipt_no_longer_answers
            an_extension_is_silent_about_what_is_lost
            a_batch_of_deliveries_is_extended
            no_answer_brings_a_cancelled_workflow_back
            a_cancelled_workflow_is_not_yielded
            a_take_yields_no_more_than_was_asked_for
            a_take_yields_only_the_kinds_asked_for
            no_kind_starves_another
            takers_at_once_never_get_the_same_delivery
            no_wakeup_is_lost_to_an_answer_at_the_same_time
            the_next_due_is_the_earliest_of_the_kinds_asked_for
            now_is_the_time_of_the_clock
            a_fleet_may_prepare_at_once
            waking_and_reclaiming_lose_nothing
            names_are_queued_as_they_are
            names_that_no_queue_keeps_are_refused
        );
    };
    (@group durable $fixture:ty) => {
        $crate::conformance_suite!(@tests durable $fixture:
            a_started_workflow_is_acquired_with_its_input
            a_second_start_returns_the_first_input
            of_concurrent_starts_exactly_one_is_first
            an_arrival_is_recorded_and_wakes
            a_delivered_value_is_filed_and_wakes
            a_value_before_the_start_is_there_after_it
            an_arrival_mid_pass_leaves_the_workflow_ready
            a_wakeup_taken_while_a_pass_runs_is_not_lost
            a_wakeup_taken_in_the_same_moment_is_not_lost
            a_held_workflow_stays_hidden
            a_value_for_a_workflow_that_is_over_is_kept
            a_cancelled_workflow_runs_no_more
            a_cancel_of_what_was_never_seen_leaves_nothing
            a_reopened_workflow_goes_on_from_its_checkpoint
            a_deleted_workflow_is_gone
            an_acquire_takes_at_most_what_was_asked_for
            an_acquire_starves_no_kind
            workers_at_once_never_get_the_same_workflow
            a_workflow_of_a_dead_worker_is_taken_by_another
            a_renewal_keeps_claim_and_delivery
            a_renewal_says_who_lost_and_hides_no_wakeup
            names_go_through_as_they_are
            a_bad_name_is_refused_with_nothing_written
            no_arrival_is_left_unread
        );
    };
    (@group settles $fixture:ty) => {
        $crate::conformance_suite!(@tests settles $fixture:
            a_completed_pass_records_its_result
            a_completed_pass_is_over_whatever_came_meanwhile
            a_delivery_of_what_is_over_is_answered
            a_sleeper_runs_again_on_time
            a_sleep_until_the_past_runs_again_at_once
            a_waiter_runs_when_its_value_arrives
            a_wait_with_a_limit_ends_at_either
            a_failed_pass_runs_again_after_its_backoff
            a_parked_workflow_keeps_its_error
            a_pass_that_is_handed_back_runs_again_at_once
            a_lost_pass_settles_nothing
            a_late_pass_that_nobody_superseded_settles
            a_result_is_never_overwritten
            many_passes_end_at_once
        );
    };
    (@group fused $fixture:ty) => {
        $crate::conformance_suite!(@tests fused $fixture:
            a_value_sent_before_the_start_brings_no_other_kind
            a_start_as_another_kind_is_refused
            a_value_for_another_kind_is_refused
            of_concurrent_starts_as_two_kinds_one_kind_wins
            a_deleted_id_is_free_for_another_kind
            a_second_start_wakes_nobody
            a_value_for_what_is_over_queues_nothing
            a_lost_settle_leaves_the_queue_alone
            a_reopen_of_what_is_open_or_completed_queues_nothing
            what_is_due_is_shown_as_ready
            a_wakeup_does_not_hide_that_a_pass_runs
            a_claim_by_hand_and_an_acquire_exclude_each_other
            a_list_may_be_of_one_kind
            a_bad_name_of_a_kind_is_refused_with_nothing_written
        );
    };
    (@group known $fixture:ty) => {
        $crate::conformance_suite!(@tests known $fixture:
            a_quiet_end_has_seen_everything
            an_end_says_that_something_came_meanwhile
            a_wait_for_what_is_recorded_is_due_at_once
            an_acquire_reads_no_more_than_what_came_since
        );
    };
    (@group inspect $fixture:ty) => {
        $crate::conformance_suite!(@tests inspect $fixture:
            what_nobody_wrote_of_has_no_status
            a_held_workflow_is_running
            a_sleeping_workflow_says_until_when
            a_waiting_workflow_says_for_what
            a_completed_workflow_says_when
            a_failing_workflow_says_why_and_when_it_tries_again
            a_parked_workflow_is_failed_until_it_is_reopened
            a_cancelled_workflow_is_shown_as_such
            a_list_comes_page_by_page
            a_list_may_be_of_one_state
            finished_tells_how_they_ended
            what_was_only_sent_to_is_shown
        );
    };
    (@group enlist $fixture:ty) => {
        $crate::conformance_suite!(@tests enlist $fixture:
            a_start_is_invisible_before_the_commit
            nothing_remains_after_a_rollback
            an_arrival_wakes_when_it_commits
            deliveries_are_filed_when_they_commit
            a_second_start_in_the_transaction_is_told
            a_refusal_leaves_the_transaction_usable
            an_arrival_at_what_is_over_wakes_nobody
            a_number_drawn_in_an_open_transaction_is_not_passed_over
            no_kind_of_writer_passes_a_drawn_number_over
        );
    };
    (@group stall $fixture:ty) => {
        $crate::conformance_suite!(@tests stall $fixture:
            an_open_transaction_stalls_nobody_else
            a_batch_waits_for_no_workflow_that_is_held
            writes_to_workflows_that_are_held_hold_nobody_up
            a_pass_that_ends_beside_an_open_arrival_is_woken
            an_effect_that_starts_a_workflow_is_all_there_or_not_at_all
        );
    };
    (@group repairs $fixture:ty) => {
        $crate::conformance_suite!(@tests repairs $fixture:
            an_arrival_asked_again_is_complete
            a_start_asked_again_is_complete
            a_delivery_asked_again_is_there
            a_delete_asked_again_is_complete
            a_cancel_and_a_reopen_asked_again_are_complete
            a_settle_asked_again_is_complete
            an_acquire_that_failed_loses_nobody
            a_crash_between_two_commits_leaves_what_asking_again_repairs
        );
    };
    (@tests $module:ident $fixture:ty: $($sentence:ident)+) => {
        mod $module {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $sentence() {
                    let fixture = <$fixture as $crate::fixture::Fixture>::open().await;
                    $crate::$module::$sentence(&fixture).await;
                    $crate::fixture::Fixture::close(fixture).await;
                }
            )+
        }
    };
}
