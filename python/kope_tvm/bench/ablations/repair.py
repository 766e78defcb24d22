# SPDX-License-Identifier: Apache-2.0
"""What fails is not mended: neither a near miss nor a reply that cannot be read gets a turn."""

from __future__ import annotations

from kope_tvm.bench.ablation import Ablation, briefed
from kope_tvm.briefing import Briefing
from kope_tvm.chat.dialogue import Left
from kope_tvm.context import Context
from kope_tvm.debugger import NearMiss
from kope_tvm.prompt.brief import Brief
from kope_tvm.prompt.reply import Refused


class Unmended(Briefing):
    """Asks for proposals only."""

    def repair(self, context: Context, miss: NearMiss, left: Left) -> Brief | None:
        """None."""
        return None

    def refusal(self, context: Context, refused: Refused, left: Left) -> Brief | None:
        """None."""
        return None


ABLATION = Ablation("without repair", needs_model=True, seats=briefed(Unmended))
