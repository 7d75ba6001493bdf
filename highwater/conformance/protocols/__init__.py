"""For each protocol, what the FizzBee judge needs to know. STEM in STEM.py is a scenario with a spec.

    SMALL                           a Shape whose runs fit into a guided trace
    IMPOSSIBLE                      a mutant of dst/mutants/STEM.py that does what the spec cannot do
    unlike_the_store(state, outcome)   how FizzBee's last state differs from the store's log, "" if it does not. Optional:
                                    without it the last state is compared with the model's only
"""
