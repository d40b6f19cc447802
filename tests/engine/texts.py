"""Two hundred texts of 1 to 600 tokens, the same on every machine."""
# ruff: noqa: RUF001 - letters that look alike are among what a tokenizer must tell apart

import random

_SHORT = (
    "",
    " ",
    "\n\t \n",
    "\u200b",
    ".",
    "?!",
    "-- --- ----",
    "a",
    "I",
    "7",
    "3.14159265358979",
    "2024-02-29T23:59:60Z",
    "1,234,567.89 € ≈ $1.3M",
    "0xDEADBEEF",
    "🙂",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "e\u0301 and é",
    "ﬁne ligature",
    "ＦＵＬＬ　ＷＩＤＴＨ",
    "ALL CAPS!!!",
    "CamelCaseIdentifierWithoutSpaces",
    "snake_case_identifier_2",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "https://example.org/a/b?c=d&e=%20f#g",
    "someone@example.org",
    "[CLS] not a special token [SEP] [MASK]",
    "水",
    "مرحبا",
    "привет",
    "नमस्ते",
    "สวัสดี",
    "שלום",
)

_PIECES = (
    "A headrace carries water to the wheel of a mill.",
    "The dam was repaired in spring, before the snow melted.",
    "Who signs the lease when both partners are abroad?",
    "Das Mühlrad dreht sich, solange das Wasser fließt.",
    "L'eau coule du ruisseau jusqu'à la roue, puis s'en va.",
    "El molino no muele con agua pasada.",
    "Река замерзает в ноябре, и мельница стоит.",
    "Το νερό κινεί τον τροχό του μύλου.",
    "水は低いところへ流れる。水車はゆっくり回る。",
    "磨坊建在河边，水推动轮子，轮子带动石磨。",
    "물레방아는 강물이 흐르는 동안 계속 돈다.",
    "يحمل القناة الماء إلى عجلة الطاحونة في الوادي.",
    "המים זורמים אל גלגל הטחנה.",
    "पानी चक्की के पहिये तक नहर से पहुँचता है।",
    "น้ำไหลไปที่กังหันของโรงสี",
    "def area(width: float, height: float) -> float:\n    return width * height  # square metres",
    "SELECT id, SUM(cost) FROM orders WHERE day >= '2023-01-01' GROUP BY id HAVING SUM(cost) > 99.5;",
    '{"flow": 12.5, "unit": "m3/s", "open": true, "gates": [1, 2, null]}',
    "for (int i = 0; i < n; ++i) { total += rows[i] * scale; }",
    "E = mc², a² + b² = c², ∑ 1/n² = π²/6",
    "Room 14B, 3rd floor; call +1 (555) 010-9999 between 09:30 and 17:00.",
    "🚰 opened at 6:00, 🛑 closed at 18:00, all good 👍",
    "Ingredients: 250 g flour, 1/2 tsp salt, 2 eggs, 300 ml milk.",
    "“Never,” she said — twice… and then: “well, perhaps.”",
)


def texts() -> list[str]:
    """The short ones, then mixtures of growing length."""
    mixer = random.Random(20)  # noqa: S311 - the texts must be the same on every run
    grown = [_mixture(mixer, pieces) for pieces in range(200 - len(_SHORT))]
    return [*_SHORT, *grown]


def _mixture(mixer: random.Random, index: int) -> str:
    count = 1 + index // 8
    separator = mixer.choice((" ", "\n", "  ", ", "))
    return separator.join(mixer.choices(_PIECES, k=count))
