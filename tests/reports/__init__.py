"""What users of similar servers reported, tried here: the row and where it is tried.

Rows are those of the reports' page; "-" stands for its closing list. A name is a test,
or a scenario of `make chaos`. `test_table.py` keeps this true.

1   tests/reports/test_pages.py      test_row_1_*
1   tests/browser/test_chat.py       test_an_answer_that_ended_while_the_page_was_offline_*
2   tests/reports/test_pages.py      test_row_2_*
2   tests/browser/test_chat.py       test_a_reload_in_mid_stream_*
4   tests/reports/test_delivery.py   test_row_4_*
5   tests/reports/test_delivery.py   test_row_5_*
5   tests/reports/test_pages.py      test_row_5_*
7   tests/reports/test_delivery.py   test_row_7_*
7   tests/workspace/test_live.py     test_a_message_over_the_limit_becomes_a_request_*
9   tests/reports/test_pages.py      test_row_9_*
9   tests/chaos/posting.py           repeats
9   tests/chaos/posting.py           after_restart
9   tests/browser/test_chat.py       test_a_double_click_and_a_lost_answer_*
10  tests/reports/test_runs.py       test_row_10_*
10  tests/agents/test_loop.py        test_an_old_fence_can_write_nothing
11  tests/chaos/kills.py             kill_somewhere
11  tests/chaos/kills.py             wrong_effects
11  tests/agents/test_loop.py        test_a_round_that_loses_its_worker_too_often_*
11  tests/agents/test_loop.py        test_a_call_caught_in_the_middle_is_repeated_only_*
13  tests/agents/test_view.py        test_a_log_cut_anywhere_gives_a_valid_view_*
13  tests/chaos/promises.py          invalid_requests
15  tests/reports/test_runs.py       test_row_15_*
15  tests/chaos/stops.py             stop_once
16  tests/reports/test_runs.py       test_row_16_*
16  tests/agents/test_loop.py        test_a_wait_that_expires_counts_as_denied
16  tests/agents/test_loop.py        test_an_approval_is_never_spent_by_a_later_call
18  tests/reports/test_storage.py    test_row_18_*
18  tests/chaos/posting.py           crowd
20  tests/reports/test_storage.py    test_row_20_*
22  tests/reports/test_storage.py    test_row_22_*
23  tests/reports/test_pages.py      test_row_23_*
23  tests/workspace/test_markdown.py test_nothing_that_acts_comes_through
24  tests/reports/test_security.py   test_row_24_*
24  tests/workspace/test_url_matrix.py test_everybody_gets_the_answer_of_the_matrix
24  tests/workspace/test_url_matrix.py test_every_address_has_a_row_and_every_row_*
25  tests/reports/test_security.py   test_row_25_*
25  tests/agents/providers/test_addresses.py test_private_addresses_are_refused_*
25  tests/agents/providers/test_addresses.py test_a_name_that_changes_its_mind_*
25  tests/agents/providers/test_addresses.py test_redirects_are_not_followed
-   tests/reports/test_runs.py       test_the_bytes_of_a_turn_begin_the_request_*
-   tests/reports/test_runs.py       test_a_message_queued_behind_a_turn_that_fails_*
-   tests/reports/test_pages.py      test_a_hidden_frozen_tab_writes_nothing_*
-   tests/reports/test_delivery.py   test_ten_tabs_of_one_person_*
-   tests/reports/test_security.py   test_an_admin_who_may_only_read_*

Still to come with what they are about: 17 (MCP servers), the subagents of 15, and the
budgets, webhooks and shared pages of 23 and 25.
"""
