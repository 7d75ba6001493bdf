"""Mappings onto abstract models in the terms of proofs: with them a refinement is proved for any number of clients."""
