# %% [markdown]
# # Text: which words decide
#
# *Needs:* `pip install "ifonly[all]"`
#
# A classifier over TF-IDF weights is linear, so the smallest change of a document's
# words that gives another decision can be found exactly, however large the vocabulary.
# The texts here are ones that every reader has at hand: what scikit-learn writes about
# its own classifiers and regressors.

# %%
import inspect

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import all_estimators

import ifonly

found = {
    name: (inspect.getdoc(kind), label)
    for label in ("classifier", "regressor")
    for name, kind in all_estimators(label)
}
texts, labels = zip(*found.values(), strict=True)
words = TfidfVectorizer(stop_words="english", min_df=3, token_pattern=r"[a-z]{3,}")
reader = make_pipeline(words, LogisticRegression(C=30))
accuracy = cross_val_score(reader, texts, labels).mean()
print(f"{len(texts)} texts, {accuracy:.0%} told apart in cross-validation")
reader.fit(texts, labels)
print(f"{len(reader[0].vocabulary_)} words")

# %% [markdown]
# ## Three words more
#
# `Ridge` is a regressor. Which three words would make its description read like that of
# a classifier? `max_changes=3` is a search over all sets of three words, and its answer
# is proved to be the best.

# %%
ridge = found["Ridge"][0]
cf = ifonly.invert(reader, ridge, "classifier", prob=0.8, max_changes=3)
cf

# %%
cf.plot()

# %% [markdown]
# ## Only by leaving words out
#
# With `decrease=True` no word may be added. A cost per change (`l1`) keeps the list
# short:

# %%
removed = ifonly.invert(
    reader,
    ridge,
    "classifier",
    actions=ifonly.Actions(decrease=True),
    cost=ifonly.Cost(l1=1.0),
)
removed.plot()

# %%
gone = [word for word, _, left in removed.changes() if left == 0]
print(f"{removed.n_changes} words lose weight; gone altogether: {', '.join(gone)}")

# %% [markdown]
# ## The whole corpus
#
# Which words does the model lean on most often? For every text, the nearest change to
# the other label, three words at most:

# %%
other = [
    "regressor" if label == "classifier" else "classifier"
    for label in reader.predict(texts)
]
cfs = ifonly.invert(reader, texts, other, max_changes=3)
exact = (cfs.status == ifonly.Status.EXACT).sum()
print(f"{exact} of {len(cfs)} solved exactly")
print(f"median distance {np.median(cfs.distance):.2f}")
cfs.summary()
