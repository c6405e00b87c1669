# %% [markdown]
# # A letter to a refused applicant
#
# *Needs:* `pip install "ifonly[all]"`
#
# A bank's model refuses a loan. What is the smallest change within the applicant's
# reach that would have had it approved, and how do we say that to the person? The data
# are the German credit data that come with the package: a thousand applicants, seven
# numbers and thirteen categories each.

# %%
import ifonly
from ifonly import credit

frame = credit.applicants()
bank = credit.pipeline(frame[:800])  # StandardScaler, OneHotEncoder, LogisticRegression
others = frame[800:].drop(columns="decision")
refused = others[bank.predict(others) == "refused"]
applicant = refused.iloc[3]
probability = bank.predict_proba(refused)[3, list(bank.classes_).index("approved")]
print(f"{len(refused)} of {len(others)} applicants are refused")
print(f"p(approved) of this one: {probability:.2f}")

# %% [markdown]
# ## What may change
#
# Nobody gets younger, and the past stays as it is. Months and amounts are whole
# numbers. `credit.actions()` says that for these columns; for your own,
# `ifonly.Actions` takes frozen columns, bounds, directions, steps and rules.

# %%
actions = credit.actions()
cf = ifonly.invert(bank, applicant, "approved", prob=0.6, actions=actions)
cf

# %% [markdown]
# The picture shows where the decision turns: each bar is one change, in log-odds of
# approval.

# %%
cf.plot()

# %% [markdown]
# ## Several ways to the same decision
#
# A person should be able to choose. Each plan after the first is the cheapest one for
# its set of changes, and no part of that set would do.

# %%
plans = ifonly.invert(bank, applicant, "approved", prob=0.6, actions=actions, n=3)
for plan in plans:
    print(
        f"cost {plan.cost:.2f}: "
        + "; ".join(f"{name} {old} → {new}" for name, old, new in plan.changes())
    )

# %% [markdown]
# ## The letter
#
# Plain words, one paragraph per plan, what was never asked of the person, and what the
# letter is not: a promise. `language="de"` writes the same in German, and a policy file
# gives columns and decisions the names that people know.

# %%
print(plans.letter(house="The bank", reference="2026-1173"))

# %% [markdown]
# ## Before it is sent
#
# The bank's own pipeline approves every plan, and a check that shares no code with the
# solver confirms that no cheaper plan exists.

# %%
print([bank.predict(plan.to_frame()).item() for plan in plans])
print(ifonly.verify(cf.to_json(), bank).claim)

# %% [markdown]
# `plans.to_html("letter.html", template="letter")` makes one sheet of A4 of the letter,
# to print or to send. `cf.to_html("why.html")` writes a page with a slider for the wanted
# probability, for whoever wants to try.
