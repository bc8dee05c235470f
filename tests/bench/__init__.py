"""Benchmarks: one form for all. Run `python -m tests.bench [NAME ...]`; no name runs all.

A benchmark is a function in any module of this package:

    @benchmark("compile")
    def compile_a_large_session(bench: Bench) -> Iterator[Figure]:
        '''What is measured, in one line; it becomes the text of docs/performance.md.'''
        yield Figure("compile_100k_kuberay_s", seconds, "s", at_most=4.0)

Each figure prints one line, `NAME VALUE UNIT TARGET ok|short`. All go to build/bench.json with
machine, versions and date; the exit status is 1 when one is short. NAME is a benchmark's name or
the beginning of one. `--write-docs` makes docs/performance.md from build/bench.json. Data sets
are kept in build/bench-data between runs; `Bench.session` makes them.
"""
