"""Another implementation of RFC 6962 judges a log: `pymerkle`, which shares no code with ours.

Reads a JSON request from standard input: the `records` of a log in base64, its `roots` by size in
hexadecimal digits, and `proofs`. Prints `[]`, or what does not hold.
"""

import base64
import json
import sys
from typing import Any

from pymerkle import InmemoryTree
from pymerkle.core import _inclusion_path_layout
from pymerkle.proof import InclusionProof, InvalidProof, verify_consistency, verify_inclusion


def main() -> None:
    """Check every root, every proof, and that each tree extends the smaller ones."""
    request = json.load(sys.stdin)
    tree = InmemoryTree(algorithm="sha256")
    tree.append_entries([base64.b64decode(each) for each in request["records"]])
    roots = {int(size): bytes.fromhex(root) for size, root in request["roots"].items()}
    wrong = [f"root at {size}" for size, root in roots.items() if tree.get_root(size) != root]
    wrong += [
        f"leaf {proof['index']} at {proof['size']}"
        for proof in request["proofs"]
        if not _is_proved(tree, proof, roots)
    ]
    wrong += [
        f"{later} does not extend {prior}"
        for prior in roots
        for later in roots
        if 0 < prior <= later and not _extends(tree, prior, later, roots)
    ]
    print(json.dumps(wrong))


def _is_proved(tree: Any, proof: dict[str, Any], roots: dict[int, bytes]) -> bool:
    number, size = proof["index"] + 1, proof["size"]
    leaf = tree.get_leaf(number)
    path = [leaf, *(base64.b64decode(each) for each in proof["path"])]
    rule, _ = _inclusion_path_layout(number, size)
    made = InclusionProof("sha256", True, size, number, rule, path)
    try:
        verify_inclusion(leaf, roots[size], made, index=number, size=size)
    except InvalidProof:
        return False
    return True


def _extends(tree: Any, prior: int, later: int, roots: dict[int, bytes]) -> bool:
    proof = tree.prove_consistency(prior, later)
    try:
        verify_consistency(roots[prior], roots[later], proof, prior_size=prior, later_size=later)
    except InvalidProof:
        return False
    return True


main()
