#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs rdma-core's Python tests, as python3-pyverbs installs them, on one device.

usage: python-tests.py NAME FOLDER DEVICE

A line on stdout for each test, `ok NAME/CLASS.test`, `not ok ...: reason` or `skip ...: reason`; those for one vendor's
hardware, which all skip themselves, share one. What a failed test said goes to stderr.

Some tests draw attributes at random, and so fail, pass or skip. Each starts from SEED (default 0) and its own name, so
that all providers are asked for the same.
"""

import collections
import os
import random
import sys
import unittest


# Tests that pass or fail by chance, whoever the provider is: why, on which driver, and after which kernel. The suite has
# its own case of each.
CHANCE = {
    'CQTest.test_resize_cq': (
        'wants a CQ full right after ibv_post_send, which on linux 6.12 leaves the work to a thread (rxe_post_send)',
        'rxe',
        (6, 1),
    ),
}


def chance_of(test, device):
    reason, driver, since = CHANCE.get(f'{type(test).__name__}.{test._testMethodName}', (None, '', ()))
    kernel = tuple(int(part) for part in os.uname().release.split('.')[:2])
    return reason if device.startswith(driver) and kernel > since else None


def tests_of(suite):
    for item in suite:
        yield from tests_of(item) if isinstance(item, unittest.TestSuite) else [item]


class Report(unittest.TestResult):
    """Says how each test went when it has ended."""

    def __init__(self, name, seed):
        super().__init__()
        self.name = name
        self.seed = seed
        self.passed = 0
        self.bad = 0
        self.vendors = collections.defaultdict(collections.Counter)

    def _case(self, test):
        return f'{self.name}/{type(test).__name__}.{test._testMethodName}'

    def _fail(self, test, error):
        self.bad += 1
        reason = ' '.join(str(error[1]).split()) or error[0].__name__
        print(f'not ok {self._case(test)}: {reason[:200]}', flush=True)
        print(self._exc_info_to_string(error, test), file=sys.stderr, flush=True)

    def startTest(self, test):
        super().startTest(test)
        random.seed(f'{self.seed}/{test.id()}')

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        print(f'ok {self._case(test)}', flush=True)

    def addError(self, test, err):
        super().addError(test, err)
        self._fail(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._fail(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        module = type(test).__module__.rpartition('.')[2]
        vendor = next((vendor for vendor in ('mlx5', 'efa') if module.startswith(f'test_{vendor}')), None)
        reason = ' '.join(reason.split())
        if vendor:
            self.vendors[vendor][reason] += 1
        else:
            print(f'skip {self._case(test)}: {reason}', flush=True)

    def end(self):
        for vendor, reasons in sorted(self.vendors.items()):
            why = '; '.join(f'{count} × {reason}' for reason, count in sorted(reasons.items()))
            print(f'skip {self.name}/{vendor}: {why}')
        counts = f'{self.passed} ok, {self.bad} not ok, {len(self.skipped)} skipped'
        print(f'pyverbs: {counts} on {self.name}, seed {self.seed}', file=sys.stderr)
        return self.bad


def main(name, folder, device):
    sys.path.insert(0, folder)
    sys.path.insert(0, os.path.dirname(folder))
    # The tests take the device from the command line.
    sys.argv[1:] = ['--dev', device, '--port', '1']
    from args_parser import parser

    parser.parse_args()
    suite = unittest.defaultTestLoader.loadTestsFromName('tests')
    for test in tests_of(suite):
        if reason := chance_of(test, device):
            setattr(test, test._testMethodName, unittest.skip(reason)(getattr(test, test._testMethodName)))
    report = Report(name, os.environ.get('SEED', '0'))
    suite.run(report)
    return report.end()


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]) != 0)
