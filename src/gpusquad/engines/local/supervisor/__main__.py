"""Run by path, as ``python -I -S -X utf8 .../supervisor/__main__.py RUN_FOLDER``, with the launch order on standard
input.

Without `site` the interpreter starts in a third of the time, but does not find our package. The package is therefore
added at the end of the path, where it cannot shadow a module of the standard library.
"""

import os
import sys

sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4)))

from gpusquad.engines.local.supervisor.main import main

sys.exit(main(sys.argv[1]))
