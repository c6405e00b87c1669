"""The smallest change of an embedding that makes an ImageNet head see a lion.

    python examples/lion.py head.npz

The file holds ``A`` (1000 × D), ``b`` and embeddings ``X``: three arrays that any network gives, see docs/heads.md.
"""

import sys

import numpy as np

import ifonly

CATS = {
    281: "tabby",
    282: "tiger cat",
    283: "Persian cat",
    284: "Siamese cat",
    285: "Egyptian cat",
}
BIG_CATS = {
    286: "cougar",
    287: "lynx",
    288: "leopard",
    289: "snow leopard",
    290: "jaguar",
    291: "lion",
    292: "tiger",
}


def main(path: str) -> None:
    data = np.load(path)
    names = [str(k) for k in range(len(data["A"]))]
    for k, name in (CATS | BIG_CATS).items():
        names[k] = name
    head = ifonly.Model(data["A"], data["b"], classes=names)
    source = next(x for x in data["X"] if head.predict(x) == "tabby")

    lion = ifonly.invert(head, source, "lion", prob=0.9)
    print(lion)
    print(
        f"passes over A: {lion.n_passes}; proved optimal: {lion.verify().gap:.0e} or less from the least E\n"
    )

    nearest = ifonly.invert(head, source, list(BIG_CATS.values()))
    print(f"nearest big cat: {nearest.target}, at distance {nearest.distance:.3f}")
    together = ifonly.invert(head, source, list(BIG_CATS.values()), joint=True)
    print(
        f"any big cat, together: {together.p_together:.3f} at distance {together.distance:.3f} ({together.status.name})"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
