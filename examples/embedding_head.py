# %% [markdown]
# # The last layer of a network
#
# *Needs:* `pip install "ifonly[all]"`
#
# The last layer of most classifiers is a linear softmax over an embedding. `ifonly`
# finds the smallest change of the *embedding* that gives another decision: how far the
# network is from seeing something else, measured in its own space. Here a small network
# reads the digits of scikit-learn; {doc}`../heads` does the same with 1 000 classes of
# ImageNet and with the vocabulary of a language model.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import ifonly

X, y = load_digits(return_X_y=True)
X = X / 16
network = MLPClassifier((48,), max_iter=400, alpha=0.1, random_state=0).fit(
    X[:1200], y[:1200]
)
images, truth = X[1200:], y[1200:]
print(
    f"{network.score(images, truth):.1%} of {len(images)} new images are read correctly"
)

# %% [markdown]
# ## Cut the network in two
#
# Everything up to the last layer is the embedding; the last layer's weights are the
# model.

# %%
(into, out), (bias, out_bias) = network.coefs_, network.intercepts_


def embed(images):
    return np.maximum(images @ into + bias, 0)


head = ifonly.Model(out.T, out_bias, classes=network.classes_)
E = embed(images)
same = (head.predict(E) == network.predict(images)).all()
print(f"{head.n_features} numbers; the same decision for every image: {same}")

# %% [markdown]
# ## What would it take to see an 8?
#
# Embeddings come out of a ReLU, so no coordinate may become negative.

# %%
positive = ifonly.Actions(bounds=(0, None))
start = int(np.flatnonzero((truth == 3) & (network.predict(images) == 3))[0])
cf = ifonly.invert(head, E[start], 8, prob=0.99, actions=positive)
cf

# %% [markdown]
# An embedding is not an image, but we can look up which images the network places nearest
# to the answer:

# %%
trained = embed(X[:1200])


def nearest(point, n=7):
    return np.argsort(((trained - point) ** 2).sum(axis=1))[:n]


rows = {
    "a 3": [images[start]],
    "nearest to it": X[nearest(E[start])],
    "nearest to the answer": X[nearest(cf.x)],
}
figure, axes = plt.subplots(3, 7, figsize=(6.5, 3.4), layout="constrained")
for row, (label, shown) in zip(axes, rows.items(), strict=True):
    row[0].set_title(label, fontsize=9, loc="left")
    for ax in row:
        ax.axis("off")
    for ax, image in zip(row, shown, strict=False):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)

# %% [markdown]
# ## Which classes are close to which
#
# The distance from each image to each class, averaged over the images of a digit, is a
# map of how the network has arranged the classes.

# %%
seen = network.predict(images)
distance = np.full((10, 10), np.nan)
for target in range(10):
    rows = seen != target
    cfs = ifonly.invert(head, E[rows], target, prob=0.5, actions=positive)
    for digit in range(10):
        if digit != target:
            distance[digit, target] = cfs.distance[seen[rows] == digit].mean()
figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
drawn = ax.imshow(distance, cmap="viridis_r")
ax.set_xticks(range(10))
ax.set_yticks(range(10))
ax.set_xlabel("wanted")
ax.set_ylabel("seen")
figure.colorbar(drawn, label="mean distance in the embedding")

# %%
nearest_pair = np.unravel_index(np.nanargmin(distance), distance.shape)
farthest_pair = np.unravel_index(np.nanargmax(distance), distance.shape)
for word, (seen_as, wanted) in (("nearest", nearest_pair), ("farthest", farthest_pair)):
    print(f"{word}: {seen_as} and {wanted}, {distance[seen_as, wanted]:.2f} on average")
