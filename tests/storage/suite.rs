//! The list of the contract: each name is one sentence about every store.

use std::sync::Arc;

use onescribe::storage::Store;
use onescribe::storage::sql::{OpenOptions, open};

use super::database::TestDatabase;

/// A store that nobody else uses.
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    /// None in memory.
    pub(crate) database: Option<TestDatabase>,
}

impl Fixture {
    /// On a database with fresh tables.
    pub(crate) async fn on(database: TestDatabase) -> Self {
        let store = open(&database.url, OpenOptions::default()).await.unwrap();
        Self {
            store,
            database: Some(database),
        }
    }
}

/// Runs a list of tests on what `$make` (a future of an optional [`Fixture`]) gives.
macro_rules! tests_on {
    ($make:expr; $($module:ident :: { $($name:ident),+ $(,)? })+) => {
        $($(
            #[tokio::test]
            async fn $name() {
                if let Some(fixture) = $make.await {
                    crate::$module::$name(&fixture).await;
                    fixture.store.close().await;
                }
            }
        )+)+
    };
}
pub(crate) use tests_on;

/// What every store promises.
macro_rules! contract {
    ($make:expr) => {
        $crate::suite::tests_on!($make;
            touches::{
                an_edit_is_stored_with_its_change_and_nothing_else_moves,
                b58_recalled_words_are_in_no_column_of_the_store,
                b59_the_newest_that_stands_is_the_last_message,
                what_stands_is_found_below_a_hundred_that_do_not,
                b76_what_is_gone_is_taken_off_unread_once,
                a_message_of_another_conversation_cannot_be_touched,
            }
            actions::{
                actions_are_listed_by_type_the_newest_message_first,
                actions_on_what_may_not_be_seen_are_kept_and_not_listed,
                in_a_group_that_hides_its_past_actions_of_an_earlier_membership_are_not_listed,
            }
            reminders::{
                b115_a_due_reminder_is_given_to_one_claimer_once,
                b115_a_claim_that_nobody_settles_runs_out_and_the_reminder_is_due_again,
            }
            own::{
                b72_a_read_moves_the_position_of_its_reader_forward_only,
                a_read_beyond_the_head_is_cut_to_it,
                what_is_cleared_or_deleted_for_me_is_not_unread_and_comes_back,
                mentions_count_while_they_are_unread_and_shown,
                the_last_message_is_the_newest_that_i_have_not_deleted,
                settings_are_of_one_member_and_only_what_changes_is_written,
                who_has_cleared_how_far_is_known_also_of_former_members,
                receipts_tell_how_far_members_and_their_devices_have_come,
                users_and_senders_who_move_the_same_rows_never_wait_in_a_circle,
            }
            marks::{
                b103_reactions_are_kept_byte_for_byte_and_counted_for_each_viewer,
                reactions_of_one_moment_stand_in_the_order_of_their_bytes,
                a_last_message_shows_what_is_on_it,
                pins_are_listed_newest_first_page_by_page,
                what_is_recalled_or_deleted_has_nothing_on_it_any_more,
                reactions_of_one_batch_do_not_take_back_the_number_of_an_edit_after_them,
            }
            commits::{
                what_is_committed_comes_back_as_it_was,
                a_commit_on_an_old_seq_is_fenced,
                a_commit_on_an_old_change_seq_is_fenced,
                a_commit_on_nothing_is_fenced,
                a_used_key_stops_its_own_batch_only,
                a_fenced_conversation_never_fails_its_neighbours,
                a_mixed_batch_is_stored_as_a_whole,
                large_batches_are_stored_in_order,
                two_batches_of_one_conversation_are_stored_one_after_the_other,
                of_100_creations_with_one_key_one_wins,
                an_id_of_a_conversation_is_given_once,
                a_group_of_5000_is_created_and_loaded,
            }
            keys::{
                b31_client_keys_are_compared_as_bytes,
                b31_creation_keys_are_compared_as_bytes,
                b31_external_ids_are_compared_as_bytes,
                b31_devices_and_settings_are_compared_as_bytes,
                a_key_belongs_to_one_sender_and_one_conversation,
                many_keys_are_found_at_once,
                b104_content_comes_back_byte_for_byte,
            }
            conversations::{
                sending_moves_the_senders_read_position_forward_only,
                who_joins_has_nothing_unread,
                who_left_is_no_member_and_may_come_back,
                when_somebody_last_joined_is_known_also_of_former_members,
                the_owner_who_leaves_hands_over,
                a_conversation_is_seen_as_its_viewer_sees_it,
                the_list_goes_by_latest_activity_page_by_page,
                the_member_list_goes_by_joining_page_by_page,
                changes_are_numbered_and_read_in_order,
                the_ledger_tells_the_stored_counters,
            }
            pages::{
                pages_are_ascending_and_their_bounds_exclusive,
                a_message_is_found_by_its_id,
                a_quote_is_looked_for_in_its_conversation,
            }
            people::{
                provisioning_twice_changes_nothing,
                thousands_are_provisioned_at_once,
                of_100_askers_for_an_external_id_all_get_one_answer,
                a_setting_is_made_once,
                cursors_never_go_back_nor_beyond_the_head,
                acknowledgements_of_strangers_are_passed_over,
                many_cursors_are_acknowledged_at_once,
                a_device_is_touched_with_and_without_a_platform,
                a_profile_is_changed_field_by_field,
                an_external_id_has_one_holder_of_its_kind,
                present_members_share_a_conversation,
                totals_count_what_is_there,
            }
            syncs::{
                standings_are_of_present_memberships_only,
                many_conversations_are_seen_at_once_as_one_by_one,
                outlines_are_the_newest_of_each_window_without_what_is_deleted,
                a_log_is_read_in_stretches_with_what_each_change_is_about,
                hundreds_of_conversations_are_read_together,
                unread_counts_are_those_of_the_list,
                devices_are_listed_by_name_and_forgotten_with_their_cursors,
                a_setting_gets_another_value_where_it_has_one,
            }
            events::{
                what_a_conversation_tells_gets_places_in_its_order_and_once,
                what_another_process_has_placed_is_not_placed_again,
                b46_a_reader_beside_many_placers_never_skips_an_event,
                what_was_there_before_events_were_wanted_is_not_told,
                a_walk_finds_every_conversation_that_lags,
                a_long_log_is_placed_in_pieces,
                the_oldest_events_are_forgotten_a_few_at_a_time,
                a_log_that_nobody_reads_rests,
                a_message_waits_to_be_looked_for_and_is_looked_for_once,
                absent_is_who_has_neither_read_nor_acknowledged_and_wants_to_know,
                b80_unread_totals_are_those_of_the_list,
            }
            audits::{
                events_are_audited_with_the_message_the_change_and_the_cursor,
            }
            hooks::{
                a_webhook_comes_back_as_it_was_and_its_name_is_given_once,
                of_two_changes_of_a_webhook_at_once_one_is_kept,
                a_lease_is_held_by_one_until_it_ends_or_is_given_back,
                deliveries_are_handed_over_once_and_again_without_harm,
                what_became_of_a_delivery_is_kept_for_whoever_holds_the_lease,
                a_delivery_is_tried_anew_when_the_operator_says_so,
                old_deliveries_go_and_those_of_a_webhook_that_is_gone,
            }
            jobs::{
                an_announcement_comes_back_as_it_was_and_its_key_is_given_once,
                a_job_is_held_by_one_until_the_lease_ends_or_is_given_back,
                a_job_goes_on_where_it_was_and_its_words_are_forgotten_at_its_end,
                a_job_that_failed_still_says_how_many_it_was_for,
                users_are_those_who_were_known_in_order,
            }
            notes::{
                a_notification_comes_back_as_it_is_and_so_does_its_message,
                notifications_are_listed_newest_first_by_state_without_what_is_hidden,
                what_is_due_is_found_until_it_is_done,
                what_was_carried_out_in_the_meantime_is_not_due_again,
                what_ends_in_the_commit_that_brings_it_is_stored_as_it_ended,
                what_is_deleted_for_everyone_leaves_no_word_of_its_notification,
                contacts_are_of_both_and_listed_by_type_and_id,
                a_block_is_known_to_whoever_loads_the_direct,
                two_who_accept_each_other_at_once_never_wait_in_a_circle,
                a_second_pending_one_with_the_same_key_is_fenced,
                a_pending_one_that_was_cleared_or_deleted_makes_room_for_another,
                a_no_keeps_its_key_until_the_same_is_asked_again,
                what_is_pending_from_somebody_comes_request_first_and_bounded,
                an_inbox_is_made_by_the_commit_of_its_first_notification,
            }
            files::{
                an_upload_becomes_a_file_and_comes_back_as_it_was,
                the_same_bytes_are_kept_once_also_when_they_come_at_once,
                a_file_is_shared_with_those_who_see_a_message_that_refers_to_it,
                in_a_group_that_hides_its_past_a_file_of_the_past_is_not_shared,
                what_i_have_cleared_or_deleted_for_myself_shares_no_file_with_me,
                a_file_that_stands_in_many_messages_is_found_in_mine,
                references_follow_the_present_content_of_a_message,
                objects_and_rows_are_listed_for_who_compares_them,
            }
            sweeps::{
                a_file_that_nothing_refers_to_goes_in_steps,
                a_reference_that_comes_late_keeps_its_file_and_one_that_comes_too_late_is_refused,
                senders_and_sweepers_at_once_leave_no_message_without_its_file,
                bytes_go_when_no_file_has_them_and_not_before,
                what_is_on_its_way_out_is_taken_by_no_upload,
                an_upload_that_came_to_nothing_leaves_only_loose_bytes,
            }
            nodes::{
                two_nodes_get_different_workers,
                of_20_claims_at_once_no_two_get_the_same,
                the_1025th_node_is_refused_until_a_lease_ends,
                a_released_worker_stays_released,
                b09_a_claim_tells_the_newest_time_that_any_node_gave,
            }
        );
    };
}
pub(crate) use contract;

/// What only a database has.
macro_rules! database_contract {
    ($make:expr) => {
        $crate::suite::tests_on!($make;
            raw::{
                pages_leave_out_what_is_deleted_for_all_or_by_the_viewer,
                a_page_is_filled_beyond_hundreds_that_the_viewer_has_deleted,
                who_comes_back_keeps_what_was_cleared,
                b63_mentions_are_rows_of_the_present_text,
                b09_a_claim_looks_at_the_ids_that_are_stored,
                a_store_whose_counter_and_messages_differ_is_not_loaded,
                durability_is_told_by_the_database,
            }
            jobs::{
                a_job_that_cannot_be_read_is_taken_and_can_be_ended,
            }
        );
    };
}
pub(crate) use database_contract;
