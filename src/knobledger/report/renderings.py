"""`render` with every report registered."""

from knobledger.report import terminal_look as terminal_look
from knobledger.report import terminal_plan as terminal_plan
from knobledger.report.terminal import render as render
