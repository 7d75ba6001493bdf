"""The tests that ask what rows of `highwater verify` ask, and take long. `make test` leaves them out; CI runs them
(`make repeated`)."""

SEEDS, MUTANT = ("simulation", "2,000 seeds refine the model"), ("mutant", "")
KEEPS, FAILS = ("proof", "every action keeps every clause"), ("proof", "fails with ")
TIED, REFINES = ("proof", "its transition relation is the model's"), ("refinement", "every step is one of ")
ROWS = {  # file::test -> the part of the gate's rows, and how their texts begin
    "tests/dst/test_scenarios.py::test_production_refines_harms_nobody_and_reaches_what_it_should": SEEDS,
    "tests/dst/test_scenarios.py::test_a_mutant_dies_of_what_it_should": MUTANT,
    "tests/dst/test_scenarios.py::test_a_seed_is_one_run_everywhere": ("simulation", "same digests in other processes"),
    "tests/dst/test_mutants.py::test_mutant_dies_of_what_it_should": MUTANT,
    "tests/model/test_proof.py::test_no_safeguard_can_be_spared": FAILS,
    "tests/model/test_ties.py::test_the_relation_is_the_model": TIED,
    "tests/model/test_ties.py::test_so_it_is_with_a_safeguard_off": TIED,
    "tests/model/test_proof_manifest_epochs.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_manifest_epochs.py::test_the_relation_is_the_model_with_a_safeguard_off": TIED,
    "tests/model/test_proof_sequenced_write.py::test_it_is_proved": KEEPS,
    "tests/model/test_proof_sequenced_write.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_proof_wal_fencing.py::test_it_is_proved": KEEPS,
    "tests/model/test_proof_wal_fencing.py::test_with_a_safeguard_off_it_is_not": FAILS,
    "tests/model/test_refine.py::test_it_refines_and_each_named_step_is_taken": REFINES,
    "tests/model/test_refine_unbounded.py::test_it_is_inherited": ("refinement", "unbounded: every step is one of "),
    "tests/model/test_refine_unbounded.py::test_each_text_is_the_models": ("refinement", "unbounded: the mapping and "),
}
