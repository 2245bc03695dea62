"""The servers that the examples ask, in one small process on this machine: ``python examples/serve.py [PORT]``.

Products in pages, customers, the orders of stores, exports that take a while, and a model behind POST /v1/chat/completions.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

PORT = 8321
PAGE = 3
PRODUCTS = {
    "p1": ("Pen", 2.5),
    "p2": ("Ink", 7.0),
    "p3": ("Lamp", 39.0),
    "p4": ("Desk", 180.0),
    "p5": ("Chair", 95.0),
    "p6": ("Pad", 4.0),
    "p7": ("Clip", 0.5),
}
CUSTOMERS = {"c1": ("Ada", "London"), "c2": ("Böðvar", "Reykjavík"), "c3": ("Chloé", "Lyon")}
STORES = {"nib": ["o1", "o2"], "lux": ["o3"]}
ORDERS = {"o1": 2.5, "o2": 14.0, "o3": 39.0}
FEELINGS = {"angry": {"broken", "late", "never"}, "happy": {"thanks", "great"}}

Answer = tuple[int, Any]

asked: Counter[str] = Counter()
exports: dict[str, int] = {}


def product_page(query: dict[str, str]) -> Answer:
    """Give a few products, and the cursor of the next page; null on the last one."""
    begin = int(query.get("cursor", 0))
    more = begin + PAGE < len(PRODUCTS)
    return 200, {
        "products": [{"id": each} for each in list(PRODUCTS)[begin : begin + PAGE]],
        "next": str(begin + PAGE) if more else None,
    }


def product(key: str) -> Answer:
    name, price = PRODUCTS[key]
    return 200, {"id": key, "name": name, "price": price}


def customer(key: str) -> Answer:
    """Give a customer; c2 only when asked for again, c5 never, as overloaded and broken servers do."""
    asked[key] += 1
    if key == "c5":
        return 500, {"error": "broken"}
    if key == "c2" and asked[key] % 2:
        return 503, {"error": "try again"}
    name, city = CUSTOMERS[key]
    return 200, {"name": name, "city": city}


def begin_export(key: str) -> Answer:
    """Begin an export; the same key is the same export, however often it comes."""
    exports.setdefault(key, 0)
    return 202, {"id": list(exports).index(key) + 1}


def export(number: str) -> Answer:
    """Tell how far an export is: it is ready when it is asked for the third time."""
    key = list(exports)[int(number) - 1]
    exports[key] += 1
    return 200, {
        "ready": exports[key] >= 3,
        "rows": [{"name": name, "price": price} for name, price in PRODUCTS.values()],
    }


def complete(request: dict[str, Any]) -> Answer:
    """Answer as a model that was told to reply in JSON would."""
    words = set(request["messages"][-1]["content"].lower().replace(".", "").replace(",", "").split())
    label = next((feeling for feeling, signs in FEELINGS.items() if words & signs), "neutral")
    message = {"role": "assistant", "content": json.dumps({"label": label})}
    usage = {"prompt_tokens": len(words), "completion_tokens": 5, "total_tokens": len(words) + 5}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return 200, {
        "id": "chat-1",
        "object": "chat.completion",
        "model": request["model"],
        "choices": [choice],
        "usage": usage,
    }


ANSWERS: dict[str, Callable[[str], Answer]] = {
    "products": product,
    "customers": customer,
    "stores": lambda key: (200, {"orders": STORES[key]}),
    "orders": lambda key: (200, {"id": key, "total": ORDERS[key]}),
    "exports": export,
}


class Handler(BaseHTTPRequestHandler):
    """Finds the answer to a path."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        nothing = 404, {"error": f"nothing is at {url.path}"}
        match url.path.strip("/").split("/"):
            case ["products"]:
                self.answer(product_page(dict(parse_qsl(url.query))))
            case [name, key] if name in ANSWERS:
                try:
                    self.answer(ANSWERS[name](key))
                except LookupError:
                    self.answer(nothing)
            case _:
                self.answer(nothing)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
        match self.path:
            case "/exports":
                self.answer(begin_export(self.headers["Idempotency-Key"]))
            case "/v1/chat/completions":
                self.answer(complete(body) if self.headers["Authorization"] else (401, {"error": "no key"}))
            case _:
                self.answer((404, {"error": f"nothing is at {self.path}"}))

    def answer(self, answer: Answer) -> None:
        body = json.dumps(answer[1], ensure_ascii=False).encode()
        self.send_response(answer[0])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Be quiet."""


def main() -> None:
    """Serve until Ctrl-C."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
    try:
        made = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        sys.exit(f"port {port}: {error.strerror}; it may be serving already, or name another port")
    with made as server:
        print(f"serving the examples on http://127.0.0.1:{server.server_port}, until Ctrl-C", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
