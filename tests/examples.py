"""Examples that several tests ask about."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "examples"

FOUR_128K = str(FOLDER / "qwen3-32b-128k-hgx-h100.yaml")
MOE_8K = str(FOLDER / "qwen3-235b-a22b-8k-hgx-h100.yaml")
LONG_CHATS = str(FOLDER / "deepseek-v4-pro-chat-hgx-h200.yaml")
SUPERNODES = str(FOLDER / "supernode-sizing.yaml")
