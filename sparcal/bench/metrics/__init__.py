"""What the benchmark measures: image AUROC and AU-PRO, exact, on a 0..1 scale."""

from sparcal.bench.metrics.paper import LIMITS, METRICS, paper_metrics
from sparcal.bench.metrics.ranking import auroc
from sparcal.bench.metrics.region_overlap import AuproAccumulator, aupro

__all__ = ["LIMITS", "METRICS", "AuproAccumulator", "aupro", "auroc", "paper_metrics"]
