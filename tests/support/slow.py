"""The tests that take long. `make test` and CI leave them out; `make slow` runs them, before a change of what they are about.

ROWS ask what rows of `highwater verify` ask. OTHERS are larger than a test of the suite that asks the like.
"""

SEEDS, MUTANT = ("simulation", "1,000 seeds refine the model"), ("mutant", "")
KEEPS, FAILS = ("proof", "every action keeps every clause"), ("proof", "fails with ")
TIED, REFINES = ("proof", "its transition relation is the model's"), ("refinement", "every step is one of ")
ROWS = {  # file::test -> the part of the gate's rows, and how their texts begin
    "tests/dst/test_scenarios.py::test_production_refines_harms_nobody_and_reaches_what_it_should": SEEDS,
    "tests/dst/test_scenarios.py::test_a_mutant_dies_of_what_it_should": MUTANT,
    "tests/dst/test_scenarios.py::test_a_seed_is_one_run_everywhere": ("simulation", "same digests in other processes"),
    "tests/dst/test_mutants.py::test_mutant_dies_of_what_it_should": MUTANT,
    "tests/model/test_proof.py::test_no_safeguard_can_be_spared": FAILS,
    "tests/model/test_proof.py::test_what_is_proved_is_the_model": TIED,
    "tests/model/test_ties.py::test_the_relation_is_the_model": TIED,
    "tests/model/test_ties.py::test_so_it_is_on_long_walks": TIED,
    "tests/model/test_ties.py::test_so_it_is_with_a_safeguard_off": TIED,
    "tests/model/test_proof_manifest_epochs.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_manifest_epochs.py::test_the_relation_is_the_model_with_a_safeguard_off": TIED,
    "tests/model/test_proof_checkpoints.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_clones.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_database_gc.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_db_reader.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_consistent_read.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_destroy.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_log_gc.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_metadata_fsm.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_metadata_fsm.py::test_the_relation_is_the_models_with_a_safeguard_off": TIED,
    "tests/model/test_proof_raft.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_checkpoints.py::test_it_is_proved": KEEPS,
    "tests/model/test_proof_clones.py::test_it_is_proved": KEEPS,
    "tests/model/test_proof_log_gc.py::test_it_is_proved": KEEPS,
    "tests/model/test_proof_manifest_epochs.py::test_it_is_proved": KEEPS,
    "tests/model/test_proof_sequenced_write.py::test_it_is_proved": KEEPS,
    "tests/model/test_proof_sequenced_write.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_wal_fencing.py::test_it_is_proved": KEEPS,
    "tests/model/test_proof_wal_fencing.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_refine.py::test_it_refines_and_each_named_step_is_taken": REFINES,
    "tests/model/test_refine_unbounded.py::test_it_is_inherited": ("refinement", "unbounded: every step is one of "),
    "tests/model/test_refine_unbounded.py::test_each_text_is_the_models": ("refinement", "unbounded: the mapping and "),
}
OTHERS = (
    # pages of docs/ that take seconds to generate, or minutes
    "tests/highwater/test_pages.py::test_a_part_that_takes_long_is_current",
    # `make lint` asks the same
    "tests/highwater/test_types.py::test_the_type_checker_passes",
    # every safeguard, clause, action or property, on the model: the suite keeps a few of each kind
    "tests/impl/db/test_db_crashes.py::test_two_hundred_killed_processes",
    "tests/impl/db/test_db_damage.py::test_a_hundred_thousand_are",
    "tests/impl/index/test_index_fuzz.py::test_a_hundred_thousand_bad_inputs_are_refused",
    "tests/impl/db/test_db_crashes.py::test_two_thousand_crash_points",
    "tests/model/test_bounded.py::test_it_finds_what_the_explorer_finds",
    "tests/model/test_projection_union.py::test_every_property_holds",
    "tests/impl/manifests/test_impl_manifests.py::test_every_property_of_the_model_holds_of_the_code",
    "tests/model/test_proof.py::test_an_edit_that_small_instances_do_not_show",
    "tests/model/test_proof_clones.py::test_every_action_is_compared",
    "tests/model/test_proof_database_gc.py::test_every_action_is_compared",
    "tests/model/test_proof_database_metadata.py::test_without_a_safeguard_they_are_not",
    "tests/model/test_proof_manifest_epochs.py::test_every_action_is_compared",
    "tests/model/test_proof_manifest_epochs.py::test_every_action_is_possible",
    "tests/model/test_proof_manifest_epochs.py::test_no_clause_can_be_spared",
    "tests/model/test_proof_wal_fencing.py::test_every_action_is_compared",
    "tests/model/test_proof_wal_fencing.py::"
    "test_what_is_not_needed_where_a_replay_is_judged_when_it_is_over_and_appends_are_checked",
    "tests/model/test_refine.py::test_an_abstract_model_keeps_its_properties",
    "tests/model/test_refine.py::test_an_abstract_model_without_a_safeguard_fails",
    "tests/model/test_refine.py::test_each_action_is_taken_in_some_instance",
    "tests/model/test_refine.py::test_each_safeguard_breaks_the_refinement_or_a_property",
    "tests/model/test_refine.py::test_with_a_safeguard_off_it_does_not",
    "tests/model/test_refine_unbounded.py::test_the_verb_says_what_is_inherited",
    # each engine, on each instance and mutant; each row of the gate, twice
    "tests/model/test_engines.py::test_exact_counts_of_the_quotients",
    "tests/model/test_engines.py::test_mutants_die_at_the_exact_depth",
    "tests/model/test_explore_disk.py::test_bounds_end_it_where_they_end_the_wide_engine",
    "tests/model/test_explore_disk.py::test_it_finds_what_the_wide_engine_finds",
    "tests/specs/test_rows.py::test_the_reductions_agree",
    "tests/specs/test_rows.py::test_what_is_deeper_is_the_same_question",
    # every scenario in processes with other hash seeds, and the shortest failing run of each mutant
    "tests/dst/test_ids.py::test_ids_are_a_function_of_the_run_and_given_once",
    "tests/dst/test_shrink.py::test_it_is_as_short_as_the_models_counterexample_or_nearly",
    "tests/traces/test_refine.py::test_explanation_does_not_depend_on_hashing",
    # FizzBee's own answers, instance by instance
    "tests/specs/test_example.py::test_the_lease_is_what_fizzbee_says",
    "tests/specs/test_fizz.py::test_an_instance_is_what_the_parser_makes_of_the_spec_with_other_constants",
    "tests/specs/test_judge.py::test_a_good_run_is_accepted_and_a_mutants_is_not",
    # Spark with other masters, larger inputs, and killed processes
    "tests/dst/test_campaign.py::test_a_campaign_on_spark_whose_driver_was_killed_goes_on",
    "tests/dst/test_bulk.py::test_spark_says_the_same_for_any_cut",
    "tests/dst/test_campaign.py::test_it_stops_after_so_many_failures_and_tells_of_the_smallest",
    "tests/dst/test_campaign.py::test_spark_reads_all_rows_from_the_folder_of_either_engine",
    "tests/dst/test_campaign.py::test_spark_rows_for_any_cut",
    "tests/dst/test_campaign.py::test_where_java_was_killed_a_line_says_so_and_the_campaign_goes_on",
    "tests/dst/test_masters.py::test_a_campaign_has_the_same_rows_and_the_same_bundles",
    "tests/dst/test_masters.py::test_queries_are_answered_alike_through_connect",
    "tests/highwater/test_spark_library.py::test_library_in_a_local_session_runs_edited_code",
    "tests/dst/test_masters.py::test_states_are_counted_alike_through_connect",
    "tests/dst/test_masters.py::test_traces_are_judged_alike_through_connect",
    "tests/highwater/test_campaign_sql.py::test_spark_answers_the_same",
    "tests/model/test_explore_disk.py::test_spark_finds_what_the_wide_engine_finds",
    # servers, packages and traces, one damage after the other; each kind of database in a bucket
    "tests/admin/test_admin_matrix.py::test_verbs_on_every_kind_in_a_bucket",
    "tests/gate/test_gate_users.py::test_an_edit_of_an_installed_package_makes_its_checks_run_again",
    "tests/highwater/test_store_probe.py::test_plain_moto_is_convicted",
    "tests/highwater/test_store_probe.py::test_who_says_nothing_is_convicted_of_nothing_and_passes_nothing",
    "tests/traces/test_damage.py::test_a_check_that_is_switched_off_is_missed",
    "tests/cluster/test_judged.py::test_ten_minutes_of_faults_lose_nothing",
    "tests/index/test_index_soak.py::test_ten_minutes_of_faults_lose_nothing",
)
