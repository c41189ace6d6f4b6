"""Runs the test cases of a package, or a part of these cases.

Arguments: the package, the number of the part from 0, the number of parts, and the path of the file for the results. The environment variable
`TEMPEST_CONFIG_DIR` names the directory that contains `tempest.conf`.

Writes the results to the file as JSON: for each case, `passed`, `failed` or `skipped`, and the reason. Prints a line for each class of cases on the
standard error output.
"""

import importlib
import json
import os
import re
import sys
import traceback
import unittest
import warnings

warnings.simplefilter("ignore")
package, part, parts, to = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]


def cases(suite):
    for one in suite:
        yield from cases(one) if isinstance(one, unittest.TestSuite) else [one]


def name(case):
    return re.sub(r"\[.*\]$", "", case.id())


class Results(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.told = {}

    def tell(self, case, result, why=""):
        # If a case has several errors, only the first error is stored.
        if self.told.get(name(case), ["passed"])[0] == "passed":
            self.told[name(case)] = [result, why]

    def why(self, error, details):
        if error:
            return "".join(traceback.format_exception(*error))
        parts = {key: part.as_text() for key, part in (details or {}).items() if part.content_type.type == "text"}
        return "\n".join(text for key, text in parts.items() if key.startswith(("traceback", "reason")))

    def startTest(self, case):
        self.tell(case, "passed")

    def addError(self, case, error=None, details=None):
        self.tell(case, "failed", self.why(error, details))

    addFailure = addError

    def addSkip(self, case, reason=None, details=None):
        self.tell(case, "skipped", reason or self.why(None, details))

    def addSuccess(self, case, details=None):
        pass

    def addExpectedFailure(self, case, error=None, details=None):
        pass

    def addUnexpectedSuccess(self, case, details=None):
        self.tell(case, "failed", "it was expected to fail")


place = importlib.import_module(package).__path__[0]
top = place
for _ in package.split("."):
    top = os.path.dirname(top)
classes = {}
for case in cases(unittest.TestLoader().discover(place, top_level_dir=top)):
    classes.setdefault(type(case), []).append(case)
results = Results()
told = {}
for n, (kind, members) in enumerate(list(classes.items())[part::parts]):
    unittest.TestSuite(members)(results)
    # If the preparation of a class fails, unittest does not report the cases of the class. Then each case gets the result of the preparation.
    whole = f"({kind.__module__}.{kind.__qualname__})"
    prepared = next((one for key, one in results.told.items() if key.startswith("setUpClass") and whole in key), None)
    for case in members:
        told[name(case)] = results.told.get(name(case)) or prepared or ["failed", "it did not run"]
    print(n, kind.__module__, kind.__qualname__, *(told[name(case)][0] for case in members), file=sys.stderr, flush=True)
with open(to, "w") as file:
    json.dump(told, file)
