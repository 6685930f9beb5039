//! The doors of a whole server in this process, on SQLite: one file per behaviour.
#![cfg(test)]

mod a_connection_and_a_sync_join;
mod a_device_catches_up;
mod a_forward_is_repeated;
mod accepted_and_refused;
mod admin_and_profiles;
mod announcements_reach_their_audience;
mod bad_input_costs_no_number;
mod devices_are_kept_and_forgotten;
mod direct_once_per_pair;
mod files_are_read_by_who_sees_the_message;
mod files_go_with_messages;
mod files_in_a_bucket;
mod form;
mod frames_are_understood_or_answered;
mod friends_are_asked;
mod groups_are_managed;
mod hostile_files_do_no_harm;
mod invitations_lead_into_groups;
mod members_come_and_go;
mod own_state_is_mine_alone;
mod paging;
mod principals_and_tokens;
mod pushes_reach_every_other_device;
mod recalled_words_are_on_no_way_out;
mod refusals_are_problem_documents;
mod removal_is_final;
mod resend_returns_first_ack;
mod rights;
#[path = "../support/s3.rs"]
mod s3;
mod slow_and_silent_clients_are_cut;
mod socket;
mod sockets_are_greeted;
mod the_blocked_reach_nobody;
mod the_feed_tells_what_happened;
mod uploads_are_bounded;
mod webhooks_are_called;
mod what_others_put_on_a_message;
mod what_was_uploaded_comes_back;
mod who_asks_too_often_is_told_when_to_go_on;
mod world;
