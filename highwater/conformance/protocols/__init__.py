"""What the FizzBee judge needs of a protocol: highwater/conformance/protocols/STEM.py, STEM being a scenario with a spec.

    SMALL                           a Shape whose runs fit into a guided trace
    IMPOSSIBLE                      a mutant of dst/mutants/STEM.py that does what the spec cannot do
    unlike_the_store(state, outcome)   what FizzBee's last state says otherwise than the store's log, "" if nothing; it may be
                                    left out, and then the last state is held against the model's alone
"""
