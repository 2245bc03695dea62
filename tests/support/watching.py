"""Somebody who watches by OpenTelemetry: the real SDK, with exporters that keep what they are given."""

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once


class Watcher:
    """Takes all spans and metrics of this process, until the test is over."""

    def __init__(self, monkeypatch, sampler=None):
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers, meters = TracerProvider(sampler=sampler), MeterProvider(metric_readers=[self._reader])
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        # As set_tracer_provider and set_meter_provider do, which can be called only once in a process.
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracers)
        monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", meters)
        monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
        self.tracer = tracers.get_tracer("test")

    @property
    def spans(self):
        """All spans that have ended, as they began."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time)

    def named(self, name):
        """Give the spans of one name."""
        return [span for span in self.spans if span.name == name]

    def one(self, name):
        """Give the only span of a name."""
        (span,) = self.named(name)
        return span

    def parent(self, span):
        """Give the span around this one; None if it has none."""
        if span.parent is None:
            return None
        return next(other for other in self.spans if other.context.span_id == span.parent.span_id)

    def line(self, span):
        """Name all spans around this one, outermost first."""
        around = self.parent(span)
        return [*([] if around is None else self.line(around)), span.name]

    def points(self, name):
        """Give the points of a metric."""
        data = self._reader.get_metrics_data()
        found = [metric for of in data.resource_metrics for scope in of.scope_metrics for metric in scope.metrics]
        return [point for metric in found if metric.name == name for point in metric.data.data_points]

    def told(self):
        """Give all that was told of spans as one text."""
        return "\n".join(span.to_json() for span in self.spans)
