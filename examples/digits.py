# %% [markdown]
# # Images and adversarial examples
#
# *Needs:* `pip install "ifonly[all]"`
#
# The digits of scikit-learn are 8 × 8 images of handwriting. A softmax classifier reads
# them. Which pixels would have to change for a 5 to be read as a 6? And how much noise
# does each image survive before it is read as anything else?

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import ifonly

X, y = load_digits(return_X_y=True)
X = X / 16
classifier = LogisticRegression(C=0.1, max_iter=2000).fit(X[:1000], y[:1000])
images, truth = X[1000:], y[1000:]
accuracy = classifier.score(images, truth)
print(f"{accuracy:.1%} of {len(images)} new images are read correctly")

# %% [markdown]
# ## From 5 to 6
#
# `bounds=(0, 1)` keeps every pixel a pixel.

# %%
pixels = ifonly.Actions(bounds=(0, 1))
five = images[(truth == 5) & (classifier.predict(images) == 5)][0]
six = ifonly.invert(classifier, five, 6, prob=0.9, actions=pixels)
six.plot("image", shape=(8, 8))

# %% [markdown]
# The way there, from "hardly changed" to "certainly a 6":

# %%
path = ifonly.path(classifier, five, 6, lams=np.geomspace(30, 1e-3, 60), actions=pixels)
path.plot("strip", shape=(8, 8))

# %% [markdown]
# ## Every digit from one image
#
# The nearest image of each class:

# %%
figure, axes = plt.subplots(1, 10, figsize=(10, 1.5), layout="constrained")
for digit, ax in enumerate(axes):
    cf = ifonly.invert(classifier, five, digit, prob=0.9, actions=pixels)
    ax.imshow(np.reshape(cf.x, (8, 8)), cmap="gray_r", vmin=0, vmax=1)
    ax.set_title(f"{digit}\n{cf.distance:.2f}", fontsize=9)
    ax.axis("off")

# %% [markdown]
# ## Adversarial examples for all images
#
# Without a target, the answer is the nearest input with *another* decision: the
# smallest adversarial perturbation in the ℓ2 norm. For a linear classifier it is exact,
# so its length is the robustness of that image, and not an upper bound that a better
# attack might improve.

# %%
nearest = ifonly.invert(classifier, images, actions=pixels)
print(
    f"{(nearest.status == ifonly.Status.EXACT).sum()} of {len(images)} solved exactly"
)
fooled = (classifier.predict(nearest.x) == nearest.target).all()
print(f"all get another label: {fooled}")
print(f"median distance {np.median(nearest.distance):.2f}")

# %%
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
right = classifier.predict(images) == truth
ax.hist(
    [nearest.distance[right], nearest.distance[~right]],
    bins=30,
    stacked=True,
    label=["read correctly", "misread"],
)
ax.set_xlabel("distance to the nearest image with another decision")
ax.set_ylabel("images")
ax.legend()

# %% [markdown]
# The least robust image, before and after:

# %%
weakest = int(np.argmin(np.where(right, nearest.distance, np.inf)))
print(f"a {truth[weakest]} is read as a {nearest.target[weakest]}")
print(f"after a change of length {nearest.distance[weakest]:.3f}")
nearest[weakest].plot("image", shape=(8, 8))
