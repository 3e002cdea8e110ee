// Nothing: the target of the headers that are precompiled for all tests.
