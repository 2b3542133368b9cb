"""A toy of a new result type, in one file: how often two runs agree on what comes first."""

from dataclasses import dataclass

from llama_index_rag_metrics import Run
from llama_index_rag_metrics.report.model import Cell, Records, Report, Row, Statement, Table
from llama_index_rag_metrics.report.reportable import Reportable


@dataclass(frozen=True)
class Agreement(Reportable):
    """The queries on which two runs have the same first item."""

    first: Run
    second: Run

    @property
    def same(self) -> dict[str, bool]:
        """Query id to whether they agree."""
        shared = [query_id for query_id in self.first if query_id in self.second]
        return {
            query_id: self.first[query_id].ids[:1] == self.second[query_id].ids[:1]
            for query_id in shared
        }

    def report(self, *, full: bool = False) -> Report:
        same = self.same
        names = f"{self.first.name} and {self.second.name}"
        share = Cell((sum(same.values()), len(same)), "tally")
        table = Table("", ["same first item"], [Row(names, [share])], label_head="runs")
        return Report(
            title=f"Agreement of {names}",
            decision=[Statement(f"{names} agree on {sum(same.values())} queries.")],
            tables=[table],
            records=Records({"query_id": list(same), "same": list(same.values())}, "query_id"),
        )
